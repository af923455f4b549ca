"""Over a server that speaks the client's own wire, request and reply pass through unchanged, but for the model's name and the receipt."""

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

REQUEST = b'{ "messages":[{"role":"user","content":"h\\u00e9llo"}],\n "model" : "scripted", "x_unknown": {"a": [1.50, 3]}, "stream": %s }'
CHUNKS = (
    ': a comment\n\ndata: {"id":"up-7","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"odd":1.50}\n\n'
    'data: {"id":"up-7","choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\r\n\r\n'
    'event: message\ndata: {"id":"up-7","choices":[{"index":0,"delta":{"content":"Hi \\u00e9"}}]}\n\n'
)
LAST = 'data: {"id":"up-7","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = 'data: {"id":"up-7","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'
DONE = "data: [DONE]\n\n"


@pytest.fixture
async def server() -> AsyncIterator[UpstreamServer]:
    async with UpstreamServer() as found:
        yield found


@pytest.fixture
async def daemon(tmp_path: Path, server: UpstreamServer) -> AsyncIterator[Running]:
    async with running(tmp_path, UpstreamEngine(UpstreamConfig(kind="upstream", url=server.url, model="scripted"))) as found:
        yield found


async def post(daemon: Running, body: bytes, path: str = "/v1/chat/completions", **headers: str) -> tuple[int, dict[str, str], bytes]:
    answer = await daemon.client.post(path, content=body, headers={"content-type": "application/json", **headers})
    return answer.status_code, dict(answer.headers), answer.content


def reef_of(frame: str) -> JSONObject:
    found = json.loads(frame.removeprefix("data: "))["reef"]
    assert isinstance(found, dict)
    return found


async def test_a_whole_reply_comes_back_byte_for_byte_with_its_receipt_in_a_header(daemon: Running, server: UpstreamServer) -> None:
    reply = (
        '{ "choices": [ {"message": {"role":"assistant","content":"Hi","x":1.50},"finish_reason":"stop"} ],"usage":{"prompt_tokens":9}}\n'
    )
    server.verbatim = reply
    status, headers, content = await post(daemon, REQUEST % b"false", **{"x-custom": "mine", "openai-organization": "o"})
    assert status == 200 and content.decode() == reply
    body, sent = server.seen[-1]
    assert body == REQUEST % b"false", "the request arrives as the client wrote it"
    token = daemon.client.headers["authorization"].removeprefix("Bearer ")
    assert token not in str(sent) and "x-custom" not in sent and "openai-organization" not in sent
    record = daemon.services.reader.inference(headers["x-reef-agent-record-id"])
    assert record is not None and record.reply["content"] == "Hi" and record.usage.prompt_tokens == 9
    assert record.messages == ({"role": "user", "content": "héllo"},) and record.request["x_unknown"] == {"a": [1.5, 3]}


@pytest.mark.parametrize("end", [LAST + USAGE + DONE, LAST + DONE, LAST, LAST.rstrip()])
async def test_a_stream_comes_back_unchanged_but_for_the_receipt_on_its_last_chunk(
    daemon: Running, server: UpstreamServer, end: str
) -> None:
    server.verbatim = CHUNKS + end
    status, _, content = await post(daemon, REQUEST % b"true")
    text = content.decode()
    assert status == 200 and text.startswith(CHUNKS)
    marked = [frame for frame in text.split("\n\n") if '"reef"' in frame]
    assert len(marked) == 1 and text.endswith(DONE) == end.endswith(DONE)
    reef = reef_of(marked[0])
    without = text.replace(',"reef":' + json.dumps(reef, separators=(",", ":")), "")
    assert without.rstrip() == (CHUNKS + end).rstrip()
    record = daemon.services.reader.inference(str(reef["agent_record_id"]))
    assert record is not None and record.reply["content"] == "Hi é" and record.reply["reasoning_content"] == "hm"
    assert record.finish_reason == "stop"


async def test_a_name_that_pins_a_release_is_the_one_thing_that_changes(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = '{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    pinned = (REQUEST % b"false").replace(b'"scripted"', b'"scripted@base"')
    status, _, content = await post(daemon, pinned)
    assert status == 200 and content.decode() == server.verbatim
    assert json.loads(server.seen[-1][0]) == json.loads(REQUEST % b"false")


async def test_a_reply_that_breaks_off_ends_in_an_error_and_is_recorded(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = CHUNKS
    _, _, content = await post(daemon, REQUEST % b"true")
    assert content.decode().startswith(CHUNKS) and "broke off" in content.decode()
    record = daemon.services.reader.inference(daemon.services.reader.last_receipt("default") or "")
    assert record.status == "error" and record.reply["content"] == "Hi é"


async def test_an_error_in_the_middle_of_a_stream_is_told_once(daemon: Running, server: UpstreamServer) -> None:
    server.verbatim = CHUNKS + 'data: {"error":{"message":"out of memory","code":500}}\n\n'
    _, _, content = await post(daemon, REQUEST % b"true")
    assert content.decode().count("out of memory") == 1 and '"reef"' in content.decode()


async def test_what_is_not_the_form_that_was_asked_for_is_an_error(daemon: Running, server: UpstreamServer) -> None:
    for stream, said, kind in (
        (b"true", "{}", "application/json"),
        (b"false", CHUNKS, "text/event-stream"),
        (b"false", "no json", "application/json"),
        (b"false", "[]", "text/html"),
    ):
        server.verbatim, server.content_type = said, kind
        status, _, content = await post(daemon, REQUEST % stream)
        assert b'"error"' in content and b"upstream" in content and status == 503
