"""Which coding agents will work: what each needs, read off the real ones, held against what the checks found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from daemon.conformance.outcome import Outcome, Verdict
from daemon.conformance.probe import Facts

_WORK_TOKENS = 2500
"""A reply and a few results, beside an agent's own prompt: below this nothing useful fits."""
_ROOM = 2.5
"""An agent that has its own prompt and half as much again for the work compacts at every other turn."""
_SLOW_S = 20.0
_UNTRIED = {
    "responses": " Tools were tried over the chat wire.",
    "messages": " Only that the messages wire answers was tried, and tools over the chat wire.",
}
_ROUTES = {"chat": "POST /v1/chat/completions", "responses": "POST /v1/responses", "messages": "POST /v1/messages"}


class Fit(StrEnum):
    WORKS = "works"
    LIMITED = "limited"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    wire: str
    prompt_tokens: int  # of its first request: system prompt and tools
    needs: tuple[str, ...]  # checks without which it does not work
    uses: tuple[str, ...] = ()  # checks without which something of it does not
    model: tuple[str, ...] = ()  # what the model must manage


@dataclass(frozen=True, slots=True)
class AgentVerdict:
    agent: str
    fit: Fit
    reasons: tuple[str, ...]


_STREAM = ("reply", "stream", "fields")
_TOOLS = ("history", "tools-read", "auto-protocol")
_CALLS = ("auto", "result")

AGENTS = (
    Agent("pi", "chat", 1_400, (*_STREAM, "contents", *_TOOLS), ("usage", "length", "overflow", "roles"), _CALLS),
    Agent("opencode", "chat", 7_700, (*_STREAM, "roles", *_TOOLS), ("usage", "at-once", "overflow"), (*_CALLS, "choice")),
    Agent("codex", "responses", 10_200, ("responses",), ("overflow",), (*_CALLS, "choice")),
    Agent("Claude Code", "messages", 12_500, ("messages",), ("usage", "at-once", "overflow"), (*_CALLS, "choice")),
    Agent("aider", "chat", 950, ("reply", "stream"), ("length", "overflow"), ("edit",)),
    Agent("qwen-code", "chat", 19_600, (*_STREAM, "contents", *_TOOLS), ("usage", "overflow"), (*_CALLS, "choice")),
    Agent("continue", "chat", 1_900, (*_STREAM, *_TOOLS), ("usage", "length", "overflow"), _CALLS),
    Agent("cline", "chat", 5_500, (*_STREAM, *_TOOLS, "many-tools"), ("usage", "overflow"), (*_CALLS, "choice")),
)


def judge(outcomes: Sequence[Outcome], facts: Facts) -> list[AgentVerdict]:
    """One verdict an agent, with every reason that speaks against it."""
    found = {outcome.check: outcome for outcome in outcomes}
    return [_judge(agent, found, facts) for agent in AGENTS]


def _judge(agent: Agent, found: Mapping[str, Outcome], facts: Facts) -> AgentVerdict:
    if agent.wire not in facts.wires:
        return AgentVerdict(agent.name, Fit.NO, (f"It speaks only the {agent.wire} wire ({_ROUTES[agent.wire]}), which is not there.",))
    against, limits = _window(agent, facts.window_tokens)
    broken = _those(found, (*agent.needs, *agent.model), Verdict.FAIL)
    if broken:
        against.append(f"It needs what failed above: {', '.join(broken)}.")
    if missed := _those(found, agent.uses, Verdict.FAIL):
        limits.append(f"It uses what failed above: {', '.join(missed)}.")
    if weak := _those(found, (*agent.model, *agent.needs), Verdict.WEAK):
        limits.append(f"It needs what this model does not manage: {', '.join(weak)}.")
    if facts.gave_up:
        limits.append(f"Not everything was tried: {facts.gave_up}.")
    if facts.read_tokens_per_s and agent.prompt_tokens / facts.read_tokens_per_s > _SLOW_S:
        seconds = agent.prompt_tokens / facts.read_tokens_per_s
        limits.append(f"Its first prompt, about {agent.prompt_tokens:,} tokens, takes about {seconds:.0f} s to read here.")
    if against:
        return AgentVerdict(agent.name, Fit.NO, tuple(against))
    if limits:
        return AgentVerdict(agent.name, Fit.LIMITED, tuple(limits))
    return AgentVerdict(agent.name, Fit.WORKS, (f"All that it needs was found.{_UNTRIED.get(agent.wire, '')}",))


def _those(found: Mapping[str, Outcome], names: Sequence[str], verdict: Verdict) -> list[str]:
    return [name for name in names if name in found and found[name].verdict is verdict]


def _window(agent: Agent, window: int) -> tuple[list[str], list[str]]:
    """What a window that is known says against the agent, and what it limits."""
    if not window:
        return [], []
    needed = agent.prompt_tokens + _WORK_TOKENS
    prompt = f"its own prompt takes about {agent.prompt_tokens:,} of them"
    if window < needed:
        return [f"The window has {window:,} tokens; {prompt}, and it needs {needed:,} at least."], []
    if window < agent.prompt_tokens * _ROOM + _WORK_TOKENS:
        return [], [f"The window of {window:,} tokens is tight: {prompt}."]
    return [], []
