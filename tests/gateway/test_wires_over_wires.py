"""Each wire over each other: a daemon in front of another one, which speaks one wire, answers clients on all of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.config import UpstreamConfig, Wire
from daemon.engine.upstream.engine import UpstreamEngine
from daemon.records import JSONObject
from tests.daemon.running import Running, running
from tests.engine.fake import Reply, ScriptedEngine

WIRES: tuple[Wire, ...] = ("chat", "responses", "messages")
SCHEMA: JSONObject = {"type": "object", "properties": {"city": {"type": "string"}}}
CALL: JSONObject = {"id": "call_1", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
REASONING = "I look it up."
MESSAGES: list[JSONObject] = [
    {"role": "user", "content": "weather?"},
    {"role": "assistant", "content": "Wait.", "tool_calls": [{**CALL, "type": "function"}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    {"role": "user", "content": "and tomorrow?"},
]
BODIES: dict[str, tuple[str, JSONObject]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "system", "content": "Be brief."}, *MESSAGES],
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
            "max_tokens": 99,
            "stream_options": {"include_usage": True},
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": "weather?"},
                {"role": "assistant", "content": "Wait."},
                {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Paris"}'},
                {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
                {"role": "user", "content": "and tomorrow?"},
            ],
            "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA}],
            "max_output_tokens": 99,
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "system": "Be brief.",
            "messages": [
                {"role": "user", "content": "weather?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "Wait."},
                        {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}},
                    ],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"}]},
                {"role": "user", "content": "and tomorrow?"},
            ],
            "tools": [{"name": "weather", "input_schema": SCHEMA}],
            "thinking": {"type": "adaptive"},
            "max_tokens": 99,
        },
    ),
}


@contextlib.asynccontextmanager
async def two(root: Path, engine: ScriptedEngine, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Running, Running]]:
    """The daemon that has the model, and the one in front of it."""
    async with running(root / "behind", engine) as behind:
        monkeypatch.setenv("BEHIND_TOKEN", behind.client.headers["authorization"].removeprefix("Bearer "))
        config = UpstreamConfig(kind="upstream", url=f"{behind.url}/v1", model="scripted", api_key_env="BEHIND_TOKEN", wires=(wire,))
        async with running(root / "front", UpstreamEngine(config)) as front:
            yield behind, front


@pytest.mark.parametrize("spoken", WIRES)
async def test_what_is_asked_and_said_is_the_same_on_every_wire(tmp_path: Path, spoken: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine({"tomorrow": Reply("I look.", REASONING, (CALL, {**CALL, "id": "call_2"}))})
    async with two(tmp_path, engine, spoken, monkeypatch) as (behind, front):
        for client in WIRES:
            for stream in (False, True):
                path, body = BODIES[client]
                answer = await front.client.post(path, json={"model": "scripted", "temperature": 0, "stream": stream, **body})
                assert answer.status_code == 200, (client, stream, answer.text)
                said = [daemon.services.reader.last_receipt("default") or "" for daemon in (front, behind)]
                mine, theirs = (daemon.services.reader.inference(said[at]) for at, daemon in enumerate((front, behind)))
                assert (mine.wire, theirs.wire) == (client, spoken)
                reply = mine.reply
                assert reply["content"] == "I look.", (client, stream)
                assert reply.get("reasoning_content") in ((REASONING,) if spoken != "messages" or client == spoken else (REASONING, None))
                calls = reply["tool_calls"]
                assert isinstance(calls, list) and len(calls) == 2
                functions = [call["function"] for call in calls if isinstance(call, dict)]
                assert [function["name"] for function in functions if isinstance(function, dict)] == ["weather"] * 2
                arguments = [json.loads(str(function["arguments"])) for function in functions if isinstance(function, dict)]
                assert arguments == [{"city": "Paris"}] * 2 and mine.finish_reason == "tool_calls"
                assert mine.usage.prompt_tokens == theirs.usage.prompt_tokens
                asked = engine.requests[-1]
                assert [message["role"] for message in asked.messages] == ["system", "user", "assistant", "tool", "user"], (client, stream)
                assert [message["content"] for message in asked.messages] == ["Be brief.", "weather?", "Wait.", "sunny", "and tomorrow?"]
                assert asked.max_tokens == 99 and len(asked.tools) == 1
                if stream:
                    assert '"agent_record_id":"' + mine.id in answer.text
                else:
                    assert answer.headers["x-reef-agent-record-id"] == mine.id
