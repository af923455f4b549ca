"""What the suite says of a server's responses wire, on which codex depends."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import httpx
import pytest

from daemon.conformance.agents import Fit
from daemon.conformance.outcome import Verdict
from daemon.conformance.suite import Result, run
from daemon.conformance.target import Target
from daemon.engine.base import Delta
from daemon.records import JSONObject
from tests.gateway.test_responses_reply import played

TARGET = Target("http://other.test/v1", "http://other.test/v1/chat/completions", model="m")
CALL: JSONObject = {"index": 0, "id": "c1", "function": {"name": "get_weather", "arguments": '{"city":"Lisbon"}'}}
Events = list[JSONObject]


async def tried(broken: Callable[[Events], Events]) -> Result:
    """A server whose events are ours, spoilt."""

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content or b"{}")
        if request.url.path.endswith("/models"):
            return httpx.Response(200, json={"data": [{"id": "m", "context_length": 32768}]})
        if not request.url.path.endswith("/responses") or not body:
            return httpx.Response(400 if request.url.path.endswith(("/responses", "/chat/completions")) else 404, json={})
        deltas = [Delta(reasoning="Hm."), Delta(text="one "), Delta(text="two"), Delta(tool_calls=(CALL,))]
        events = broken(played(body, deltas, "stop")[0])
        lines = "".join(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n" for event in events)
        return httpx.Response(200, content=f": a comment\n\n{lines}data: [DONE]\n\n", headers={"content-type": "text/event-stream"})

    return await run(TARGET, transport=httpx.MockTransport(answer), answer_s=5, only=frozenset({"wires", "responses"}))


def without(kind: str) -> Callable[[Events], Events]:
    return lambda events: [event for event in events if event["type"] != kind]


def changed(kind: str, **fields: object) -> Callable[[Events], Events]:
    return lambda events: [{**event, **fields} if event["type"] == kind else event for event in events]  # type: ignore[dict-item]


def unplaced(events: Sequence[JSONObject]) -> Events:
    return [{name: value for name, value in event.items() if name != "output_index"} for event in events]


async def test_a_server_that_speaks_it_suits_codex() -> None:
    result = await tried(lambda events: events)
    assert {outcome.check: outcome.verdict for outcome in result.outcomes} == dict.fromkeys(("wires", "responses"), Verdict.PASS)
    codex = next(found for found in result.agents if found.agent == "codex")
    assert codex.fit is Fit.WORKS, codex.reasons


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (without("response.created"), "begins with 'response.in_progress'"),
        (without("response.completed"), "ends 0 times"),
        (lambda events: [*events, events[-1]], "ends 2 times"),
        (lambda events: [], "is empty"),
        (unplaced, "has no output_index"),
        (without("response.output_item.added"), "has not begun"),
        (without("response.output_item.done"), "never end"),
        (changed("response.output_text.done", text="other"), "its pieces 'one two'"),
        (changed("response.function_call_arguments.done", arguments="{}"), "its pieces"),
        (changed("response.completed", response={"output": [], "usage": {"input_tokens": 3}}), "no items"),
        (changed("response.completed", response={"output": [{}]}), "no usage"),
        (changed("response.completed", type="response.failed", response={"error": {"message": "out of memory"}}), "out of memory"),
        (changed("response.completed", type="error", message="out of memory", response=None), "out of memory"),
    ],
)
async def test_each_mistake_is_noticed_and_rules_codex_out(broken: Callable[[Events], Events], words: str) -> None:
    result = await tried(broken)
    outcome = next(outcome for outcome in result.outcomes if outcome.check == "responses")
    assert outcome.verdict is Verdict.FAIL and words in outcome.sentence, outcome
    assert next(found for found in result.agents if found.agent == "codex").fit is Fit.NO
