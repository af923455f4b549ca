"""Over a server that speaks the messages wire, and over one that does not; and the chat wire over one that speaks no other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon.config import UpstreamConfig
from daemon.engine.upstream.engine import UpstreamEngine
from daemon.records import JSONObject
from tests.daemon.running import Running, running
from tests.engine.upstream_server import UpstreamServer
from tests.gateway.frames import post, texts_of
from tests.gateway.test_messages import parsed

REQUEST = (
    b'{ "messages":[{"role":"user","content":"h\\u00e9llo"}, {"role": "assistant","content":"{"}],\n "model" : "scripted", '
    b'"max_tokens": 9, "x_unknown": [1.50], "thinking": {"type": "adaptive"}, "stream": %s }'
)
BEGUN = (
    'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_theirs","usage":'
    '{"input_tokens":9,"cache_read_input_tokens":4}}}\n\n'
    'event: ping\ndata: {"type": "ping"}\n\n'
    'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"theirs"}}\n\n'
    'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi \\u00e9"}}\n\n'
)
END = (
    'event: content_block_stop\ndata: {"type":"content_block_stop","index":1}\n\n'
    'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3},"odd":1.50}\n\n'
)
STOP = 'event: message_stop\ndata: {"type":"message_stop"}\n\n'


@pytest.fixture
async def server() -> AsyncIterator[UpstreamServer]:
    async with UpstreamServer() as found:
        yield found


@pytest.fixture
async def daemon(tmp_path: Path, server: UpstreamServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setenv("THEIR_KEY", "sk-ant-theirs")
    config = UpstreamConfig(kind="upstream", url=server.url, model="scripted", wires=("messages",), api_key_env="THEIR_KEY")
    async with running(tmp_path, UpstreamEngine(config)) as found:
        yield found


async def send(daemon: Running, body: bytes, path: str = "/v1/messages") -> tuple[int, str, str]:
    """Status, content, and the receipt in the header."""
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", "anthropic-beta": "a-1,b-2", "x-app": "cli"}
    answer = await daemon.client.post(path, content=body, headers=headers)
    return answer.status_code, answer.content.decode(), answer.headers.get("x-reef-agent-record-id", "")


async def test_a_whole_reply_passes_unchanged(daemon: Running, server: UpstreamServer) -> None:
    block = '{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}}'
    server.verbatim = f'{{ "content": [ {block} ], "stop_reason":"tool_use", "usage":{{"input_tokens":9,"output_tokens":2}}, "x": 1.50 }}\n'
    status, content, receipt = await send(daemon, REQUEST % b"false")
    assert status == 200 and content == server.verbatim
    body, headers = server.seen[-1]
    assert body == REQUEST % b"false", "also what is begun already: that is for the server to judge"
    assert (headers["anthropic-beta"], headers["x-api-key"]) == ("a-1,b-2", "sk-ant-theirs")
    assert "authorization" not in headers and "x-app" not in headers
    record = daemon.services.reader.inference(receipt)
    assert (record.wire, record.finish_reason, record.usage.prompt_tokens) == ("messages", "tool_calls", 9)
    calls: Any = record.reply["tool_calls"]
    assert (calls[0]["id"], json.loads(calls[0]["function"]["arguments"])) == ("toolu_1", {"path": "a"})
    assert record.messages[0] == {"role": "user", "content": "héllo"}


async def test_a_stream_passes_unchanged_but_for_the_receipt_on_its_last_event(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = BEGUN + END + STOP
    status, content, _ = await send(daemon, REQUEST % b"true")
    assert status == 200 and content.startswith(BEGUN + END)
    [(name, last)] = parsed(content[len(BEGUN + END) :])
    reef = last.pop("reef")
    assert (name, last) == ("message_stop", {"type": "message_stop"})
    record = daemon.services.reader.inference(reef["agent_record_id"])
    assert (record.reply["content"], record.reply["reasoning_content"], record.finish_reason) == ("Hi é", "hm", "stop")
    assert (record.usage.prompt_tokens, record.usage.cached_tokens, record.usage.completion_tokens) == (13, 4, 3)


async def test_a_stream_that_breaks_off_ends_in_an_error_event(daemon: Running, server: UpstreamServer) -> None:
    for said in (BEGUN, BEGUN + END):
        server.verbatim = said
        _, content, _ = await send(daemon, REQUEST % b"true")
        assert content.startswith(said)
        [(name, data)] = parsed(content[len(said) :])
        assert name == "error" and "broke off" in data["error"]["message"]
        assert daemon.services.reader.inference(data["reef"]["agent_record_id"]).reply["content"] == "Hi é"


async def test_its_refusals_keep_their_meaning(daemon: Running, server: UpstreamServer) -> None:
    kinds = [
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", 400),
        (400, "invalid_request_error", "max_tokens: too many", 400),
        (429, "rate_limit_error", "slow down", 429),
        (529, "overloaded_error", "Overloaded", 529),
    ]
    for status, kind, message, expected in kinds:
        server.refusal = (status, {"type": "error", "error": {"type": kind, "message": message}})
        answered, content, _ = await send(daemon, REQUEST % b"true")
        assert answered == expected and message in content, content
        assert json.loads(content)["error"]["type"] == kind
    server.verbatim = BEGUN + 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    _, content, _ = await send(daemon, REQUEST % b"true")
    [(name, data)] = parsed(content[len(BEGUN) :])
    assert name == "error" and data["error"]["type"] == "overloaded_error" and "Overloaded" in data["error"]["message"]


async def test_tokens_are_counted_by_the_server(daemon: Running, server: UpstreamServer) -> None:
    asked = b'{"model": "scripted", "messages": [{"role": "user", "content": "x"}]}'
    server.verbatim, server.content_type = '{"input_tokens": 77}', "application/json"
    status, content, _ = await send(daemon, asked, "/v1/messages/count_tokens")
    assert (status, json.loads(content)) == (200, {"input_tokens": 77})
    assert server.paths[-1] == "/v1/messages/count_tokens" and server.seen[-1][0] == asked
    server.verbatim = None
    server.refusal = (404, {"type": "error", "error": {"type": "not_found_error", "message": "no such route"}})
    _, content, _ = await send(daemon, asked, "/v1/messages/count_tokens")
    assert json.loads(content)["reef"] == {"estimated": True}, "not every server of this wire has the route"


async def test_a_chat_over_it_is_translated_both_ways(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = BEGUN + END + STOP
    answer = await daemon.chat("hello")
    message = answer.json()["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Hi é", "hm"), answer.text
    sent = json.loads(server.seen[-1][0])
    assert sent["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hello"}]}] and sent["max_tokens"] > 0
    body: JSONObject = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], "stream": True}
    frames, _ = await post(daemon, "/v1/chat/completions", body)
    assert texts_of(frames) == {0: "Hi é"}
    plain = await daemon.client.post("/v1/completions", json={"model": "scripted", "prompt": "x"})
    assert plain.status_code == 400 and "plain texts" in plain.json()["error"]["message"]


async def test_over_a_chat_server_it_is_translated_both_ways(tmp_path: Path, server: UpstreamServer) -> None:
    call: JSONObject = {"index": 0, "id": "functions.read:0", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    server.script = [{"reasoning_content": "Hm."}, {"content": "I look."}, {"tool_calls": [call]}]
    async with running(tmp_path, UpstreamEngine(UpstreamConfig(kind="upstream", url=server.url, model="scripted"))) as daemon:
        tool: JSONObject = {"name": "read", "input_schema": {"type": "object"}}
        asked: JSONObject = {"model": "scripted", "max_tokens": 50, "tools": [tool], "thinking": {"type": "enabled", "budget_tokens": 1024}}
        whole = (await daemon.client.post("/v1/messages", json={**asked, "messages": [{"role": "user", "content": "x"}]})).json()
        assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use"]
        result = {"type": "tool_result", "tool_use_id": "functions.read:0", "content": "none", "is_error": True}
        history = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": whole["content"]},
            {"role": "user", "content": [result]},
        ]
        server.script = []
        await daemon.client.post("/v1/messages", json={**asked, "messages": history, "metadata": {"user_id": "u"}})
        sent: Any = server.bodies[-1]
        assert sent["messages"][2] == {"role": "tool", "tool_call_id": "functions.read:0", "content": "none"}
        assert sent["messages"][1]["tool_calls"][0]["id"] == "functions.read:0"
        assert not {"thinking", "metadata", "chat_template_kwargs", "system"} & sent.keys(), (
            "a chat server may refuse what it does not know"
        )
