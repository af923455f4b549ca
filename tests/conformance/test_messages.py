"""What the suite says of a server's messages wire, on which Claude Code depends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from daemon.conformance.agents import Fit
from daemon.conformance.outcome import Verdict
from daemon.conformance.suite import Result, run
from daemon.conformance.target import Target
from daemon.engine.base import Delta
from daemon.gateway.wires.messages.request import Thinking
from daemon.records import JSONObject
from tests.gateway.test_messages_reply import data_of, written

TARGET = Target("http://other.test/v1", "http://other.test/v1/chat/completions", model="m")
CALL: JSONObject = {"index": 0, "id": "c1", "function": {"name": "get_weather", "arguments": '{"city":"Lisbon"}'}}
Events = list[dict[str, Any]]


async def tried(broken: Callable[[Events], Events]) -> Result:
    """A server whose events are ours, spoilt."""

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content or b"{}")
        if request.url.path.endswith("/models"):
            return httpx.Response(200, json={"data": [{"id": "m", "context_length": 65536}]})
        if not request.url.path.endswith("/messages") or not body:
            return httpx.Response(400 if request.url.path.endswith(("/messages", "/chat/completions")) else 404, json={})
        deltas = [Delta(reasoning="Hm."), Delta(text="one "), Delta(text="two"), Delta(tool_calls=(CALL,))]
        events = broken(data_of(written(deltas, Thinking(shown=True))[0]))
        lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return httpx.Response(200, content=f": a comment\n\n{lines}", headers={"content-type": "text/event-stream"})

    return await run(TARGET, transport=httpx.MockTransport(answer), answer_s=5, only=frozenset({"wires", "messages"}))


def without(kind: str) -> Callable[[Events], Events]:
    return lambda events: [event for event in events if event["type"] != kind]


def changed(kind: str, **fields: object) -> Callable[[Events], Events]:
    return lambda events: [{**event, **fields} if event["type"] == kind else event for event in events]


async def test_a_server_that_speaks_it_suits_claude_code() -> None:
    result = await tried(lambda events: [events[0], {"type": "ping"}, *events[1:]])
    assert {outcome.check: outcome.verdict for outcome in result.outcomes} == dict.fromkeys(("wires", "messages"), Verdict.PASS)
    claude = next(found for found in result.agents if found.agent == "Claude Code")
    assert claude.fit is Fit.WORKS, claude.reasons


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (without("message_start"), "begins with 'content_block_start'"),
        (without("message_stop"), "comes 0 times"),
        (lambda events: [*events, events[-1]], "comes 2 times"),
        (lambda events: [], "is empty"),
        (without("content_block_start"), "without its block"),
        (without("content_block_stop"), "never end"),
        (changed("content_block_start", index=7), "is numbered 7"),
        (changed("content_block_delta", delta={"type": "input_json_delta", "partial_json": ""}), "input_json_delta comes without"),
        (changed("content_block_start", content_block={"type": "tool_use"}), "lacks its id"),
        (without("message_delta"), "No stop_reason"),
        (lambda events: changed("message_delta", usage={})(changed("message_start", message={})(events)), "no usage"),
        (changed("message_delta", type="error", error={"type": "api_error", "message": "out of memory"}), "out of memory"),
    ],
)
async def test_each_mistake_is_noticed_and_rules_claude_code_out(broken: Callable[[Events], Events], words: str) -> None:
    result = await tried(broken)
    outcome = next(outcome for outcome in result.outcomes if outcome.check == "messages")
    assert outcome.verdict is Verdict.FAIL and words in outcome.sentence, outcome
    assert next(found for found in result.agents if found.agent == "Claude Code").fit is Fit.NO
