"""The suite: its checks in order, what the server guarantees apart from what the model manages."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from daemon.conformance.agents import AgentVerdict, judge
from daemon.conformance.checks import basics, forced, limits, messages, model, responses, structure
from daemon.conformance.client import ANSWER_S, Client
from daemon.conformance.outcome import Ended, Outcome, Verdict
from daemon.conformance.probe import Facts, Probe
from daemon.conformance.shapes import a_count, a_text
from daemon.conformance.target import Target
from daemon.errors import NotFound
from daemon.records import JSONObject

SERVER, CALLS, MODEL, FORM, LIMITS = (
    "Replies",
    "Tool calls that the server must make",
    "What the model manages by itself",
    "Replies held to a form",
    "Limits",
)
_MOST_SILENCES = 3


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    group: str
    run: Callable[[Probe], Awaitable[str]]


CHECKS = (
    Check("wires", SERVER, basics.wires),
    Check("reply", SERVER, basics.reply),
    Check("length", SERVER, basics.length),
    Check("stream", SERVER, basics.stream),
    Check("usage", SERVER, basics.usage),
    Check("same", SERVER, basics.same),
    Check("at-once", SERVER, basics.at_once),
    Check("roles", SERVER, basics.roles),
    Check("contents", SERVER, basics.contents),
    Check("fields", SERVER, basics.fields),
    Check("responses", SERVER, responses.events),
    Check("messages", SERVER, messages.events),
    Check("forced", CALLS, forced.forced),
    Check("forced-stream", CALLS, forced.forced_stream),
    Check("required", CALLS, forced.required),
    Check("none", CALLS, forced.none),
    Check("nested", CALLS, forced.nested),
    Check("no-arguments", CALLS, forced.no_arguments),
    Check("unicode", CALLS, forced.unicode),
    Check("not-a-tool", CALLS, forced.unread_names),
    Check("history", CALLS, forced.history),
    Check("edit", MODEL, model.edit),
    Check("tools-read", MODEL, model.tools_read),
    Check("auto-protocol", MODEL, model.auto_stream),
    Check("auto", MODEL, model.auto),
    Check("choice", MODEL, model.choice),
    Check("parallel", MODEL, model.parallel),
    Check("result", MODEL, model.result),
    Check("json-object", FORM, structure.json_object),
    Check("json-schema", FORM, structure.json_schema),
    Check("many-tools", LIMITS, limits.many_tools),
    Check("overflow", LIMITS, limits.overflow),
)


@dataclass(frozen=True, slots=True)
class Result:
    model: str
    facts: Facts
    outcomes: tuple[Outcome, ...]
    agents: tuple[AgentVerdict, ...]

    @property
    def failed(self) -> bool:
        return any(outcome.verdict is Verdict.FAIL for outcome in self.outcomes)


class Watcher:
    """Told of each step. This one keeps silent."""

    def begins(self, result: Facts) -> None:
        """The server answers; its model and window are known."""

    def trying(self, check: Check) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...


async def run(
    target: Target,
    watcher: Watcher | None = None,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    answer_s: float = ANSWER_S,
    only: frozenset[str] = frozenset(),
) -> Result:
    """Try everything. About 50 short requests, one after another.

    Args:
        transport: replaces the network.
        answer_s: how long one answer may take.
        only: names of checks; empty means all.

    Raises:
        EngineError: the server does not answer, or refuses the key.
        NotFound: it does not list the model, or lists none and none was named.
    """
    watcher = watcher or Watcher()
    async with Client(target, transport, answer_s) as client:
        facts = _chosen(await client.models(), target)
        watcher.begins(facts)
        probe = Probe(client, facts)
        outcomes: list[Outcome] = []
        for check in CHECKS:
            if only and check.name not in only:
                continue
            watcher.trying(check)
            facts.gave_up = facts.gave_up or _useless(outcomes, client)
            skipped = Outcome(check.name, check.group, Verdict.SKIPPED, f"Not tried: {facts.gave_up}.")
            outcomes.append(skipped if facts.gave_up else await _try(check, probe))
            watcher.ended(outcomes[-1])
            await client.look_if_broken(check.name)
    return Result(facts.model, facts, tuple(outcomes), tuple(judge(outcomes, facts)))


async def _try(check: Check, probe: Probe) -> Outcome:
    began = time.monotonic()
    try:
        sentence, verdict = await check.run(probe), Verdict.PASS
    except Ended as ended:
        sentence, verdict = ended.sentence, ended.verdict
    return Outcome(check.name, check.group, verdict, sentence, time.monotonic() - began)


def _useless(outcomes: list[Outcome], client: Client) -> str:
    """Why it makes no sense to go on, or nothing."""
    if any(outcome.check == "reply" and outcome.verdict is Verdict.FAIL for outcome in outcomes):
        return "not even a plain reply came"
    if client.down_since:
        return f"the server is gone since the check {client.down_since}"
    if client.silences >= _MOST_SILENCES:
        return f"{client.silences} requests were not answered in time"
    return ""


def _chosen(listed: list[JSONObject], target: Target) -> Facts:
    """The model, and its window where the server says it: there is no agreed field for that."""
    names = [name for entry in listed if (name := a_text(entry.get("id")))]
    if not (target.model or names):
        raise NotFound(f"{target.url} lists no models.", "Name the model: reef doctor --tools --url URL --model NAME")
    wanted = target.model or names[0]
    if names and wanted not in names:
        raise NotFound(f"{target.url} lists no model {wanted}.", f"It lists: {', '.join(names[:8])}.")
    entry = next((entry for entry in listed if entry.get("id") == wanted), {})
    meta = entry.get("meta")
    sources = [entry, meta if isinstance(meta, dict) else {}]
    windows = [
        a_count(source.get(name))
        for source in sources
        for name in ("context_window", "context_length", "max_model_len", "max_context_length", "n_ctx")
    ]
    return Facts(model=wanted, window_tokens=next((window for window in windows if window), 0))
