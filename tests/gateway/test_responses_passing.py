"""Over a server that speaks the responses wire, and over one that does not; and the other wires over one that speaks no other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.config import UpstreamConfig
from daemon.engine.upstream.engine import UpstreamEngine
from daemon.records import JSONObject
from tests.daemon.running import Running, running
from tests.engine.upstream_server import UpstreamServer
from tests.gateway.frames import post, texts_of

REQUEST = b'{ "input":[{"role":"user","content":"h\\u00e9llo"}],\n "model" : "scripted", "previous": null, "stream": %s }'
ITEM = '{"id":"m1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi \\u00e9"}]}'
BEGUN = (
    'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_theirs","output":[],"odd":1.50}}\n\n'
    'event: response.output_item.added\ndata: {"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}\n\n'
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","output_index":0,"delta":"Hi \\u00e9"}\n\n'
)
USAGE = '"usage":{"input_tokens":9,"output_tokens":2}'
END = f'event: response.completed\ndata: {{"type":"response.completed","response":{{"id":"resp_theirs","output":[{ITEM}],{USAGE}}}}}\n\n'


@pytest.fixture
async def server() -> AsyncIterator[UpstreamServer]:
    async with UpstreamServer() as found:
        yield found


@pytest.fixture
async def daemon(tmp_path: Path, server: UpstreamServer) -> AsyncIterator[Running]:
    config = UpstreamConfig(kind="upstream", url=server.url, model="scripted", wires=("responses",))
    async with running(tmp_path, UpstreamEngine(config)) as found:
        yield found


async def send(daemon: Running, body: bytes) -> tuple[int, str, str]:
    """Status, content, and the receipt in the header."""
    answer = await daemon.client.post("/v1/responses", content=body, headers={"content-type": "application/json"})
    return answer.status_code, answer.content.decode(), answer.headers.get("x-reef-agent-record-id", "")


async def test_a_whole_reply_passes_unchanged(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = f'{{ "output": [ {ITEM} ], {USAGE}, "x": 1.50 }}\n'
    status, content, receipt = await send(daemon, REQUEST % b"false")
    assert status == 200 and content == server.verbatim and server.seen[-1][0] == REQUEST % b"false"
    record = daemon.services.reader.inference(receipt)
    assert record.reply["content"] == "Hi é" and record.usage.prompt_tokens == 9 and record.finish_reason == "stop"
    assert record.wire == "responses" and record.messages == ({"role": "user", "content": "héllo"},)


async def test_tools_that_only_that_server_has_pass_and_may_be_chosen(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = f'{{"output":[{ITEM}]}}'
    for choice in (b'{"type":"web_search"}', b'"required"', b'{"type":"custom","name":"patch"}'):
        body = (
            b'{"model":"scripted","input":"x","tools":[{"type":"web_search"},{"type":"custom","name":"patch"}],"tool_choice":%s}' % choice
        )
        status, content, _ = await send(daemon, body)
        assert status == 200 and content == server.verbatim and server.seen[-1][0] == body


async def test_a_stream_passes_unchanged_but_for_the_receipt_on_its_last_event(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = BEGUN + END
    status, content, _ = await send(daemon, REQUEST % b"true")
    assert status == 200 and content.startswith(BEGUN) and content.endswith("}\n\n")
    last = json.loads(content[len(BEGUN) :].split("data: ")[1])
    reef = last.pop("reef")
    assert last == json.loads(END.split("data: ")[1])
    record = daemon.services.reader.inference(reef["agent_record_id"])
    assert record.reply["content"] == "Hi é" and record.finish_reason == "stop"


async def test_a_stream_that_breaks_off_ends_as_failed_under_the_id_that_it_began_with(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = BEGUN
    _, content, _ = await send(daemon, REQUEST % b"true")
    assert content.startswith(BEGUN)
    name, data = content[len(BEGUN) :].removesuffix("\n\n").split("\n")
    event = json.loads(data.removeprefix("data: "))
    assert name == "event: response.failed" and event["type"] == "response.failed"
    assert event["response"]["id"] == "resp_theirs" and "broke off" in event["response"]["error"]["message"]
    assert daemon.services.reader.inference(event["reef"]["agent_record_id"]).reply["content"] == "Hi é"


async def test_a_chat_over_it_is_translated_both_ways(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = BEGUN + END
    answer = await daemon.chat("hello")
    assert answer.json()["choices"][0]["message"]["content"] == "Hi é", answer.text
    sent = json.loads(server.seen[-1][0])
    assert sent["input"] == [{"type": "message", "role": "user", "content": "hello"}] and sent["store"] is False
    body: JSONObject = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], "stream": True}
    frames, _ = await post(daemon, "/v1/chat/completions", body)
    assert texts_of(frames) == {0: "Hi é"}


async def test_over_a_chat_server_it_is_translated_both_ways(tmp_path: Path, server: UpstreamServer) -> None:
    call: JSONObject = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    server.script = [{"reasoning_content": "Hm."}, {"content": "I look."}, {"tool_calls": [call]}]
    async with running(tmp_path, UpstreamEngine(UpstreamConfig(kind="upstream", url=server.url, model="scripted"))) as daemon:
        tool: JSONObject = {"type": "function", "name": "f", "parameters": {"type": "object"}}
        events, _ = await post(daemon, "/v1/responses", {"model": "scripted", "input": "x", "tools": [tool], "stream": True})
        response = events[-1]["response"]
        assert isinstance(response, dict) and isinstance(response["output"], list)
        assert [item["type"] for item in response["output"] if isinstance(item, dict)] == ["reasoning", "message", "function_call"]
        assert server.bodies[-1]["messages"] == [{"role": "user", "content": "x"}]
        server.script = []
        server.refusal = (429, {"error": {"message": "slow down"}})
        busy = await daemon.client.post("/v1/responses", json={"model": "scripted", "input": "x", "stream": True})
        assert busy.status_code == 429 and "slow down" in busy.json()["error"]["message"]
