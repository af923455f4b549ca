"""Over a server that speaks the client's own wire, request and reply pass through unchanged, but for the model's name and the receipt."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.config import UpstreamConfig
from daemon.engine.base import Capability
from daemon.engine.upstream.engine import UpstreamEngine
from daemon.gateway.passing import with_receipt
from daemon.records import JSONObject
from tests.daemon.running import Running, running, until
from tests.engine.fake import ALL, ScriptedEngine
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


async def test_several_choices_are_asked_for_once_and_each_is_recorded(daemon: Running, server: UpstreamServer) -> None:
    several = (REQUEST % b"true").replace(b'"stream"', b'"n": 3, "stream"')
    chunks = [f'{{"choices":[{{"index":{index},"delta":{{"content":"w{index} "}},"finish_reason":null}}]}}' for index in (0, 2, 1, 0)]
    ends = [f'{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":"stop"}}]}}' for index in (1, 0, 2)]
    server.verbatim = "".join(f"data: {chunk}\n\n" for chunk in [*chunks, *ends]) + DONE
    _, _, content = await post(daemon, several)
    assert len(server.bodies) == 1 and server.seen[-1][0] == several
    marked = [frame for frame in content.decode().split("\n\n") if '"reef"' in frame]
    receipts = reef_of(marked[0])["agent_record_ids"]
    assert len(marked) == 1 and isinstance(receipts, list)
    records = [daemon.services.reader.inference(str(receipt)) for receipt in receipts]
    assert [record.reply["content"] for record in records] == ["w0 w0 ", "w1 ", "w2 "]
    server.verbatim = (
        '{"choices":[{"index":1,"message":{"content":"b"},"finish_reason":"stop"},'
        '{"index":0,"message":{"content":"a"},"finish_reason":"length"}]}'
    )
    _, headers, content = await post(daemon, several.replace(b"3", b"2").replace(b"true", b"false"))
    assert content.decode() == server.verbatim
    assert daemon.services.reader.inference(headers["x-reef-agent-record-id"]).finish_reason == "length"
    assert daemon.services.reader.counts("default").inferences == 5


async def test_pictures_pass_to_a_server_that_takes_them_and_are_refused_by_name_by_one_that_does_not(
    daemon: Running, server: UpstreamServer, tmp_path: Path
) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "what is this"}, picture]}]
    server.verbatim = '{"choices":[{"message":{"content":"a cat"},"finish_reason":"stop"}]}'
    body = {"model": "scripted", "messages": messages}
    answer = await daemon.client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200 and json.loads(server.seen[-1][0])["messages"] == messages
    assert daemon.services.reader.inference(answer.headers["x-reef-agent-record-id"]).messages[0]["content"] == messages[0]["content"]
    blind = ScriptedEngine(capabilities=ALL & ~Capability.IMAGES)
    async with running(tmp_path / "blind", blind) as other:
        refused = await other.client.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "messages[0].content[1]"


async def test_another_model_is_refused_with_the_code_that_sdks_know(daemon: Running) -> None:
    refused = await daemon.client.post("/v1/chat/completions", json={"model": "gpt-9", "messages": [{"role": "user", "content": "a"}]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")


async def test_a_refusal_keeps_its_status_code_and_words(daemon: Running, server: UpstreamServer) -> None:
    for status, error, said in (
        (429, {"message": "slow down", "code": "rate_limit_exceeded"}, 429),
        (400, {"message": "no such thing", "param": "x", "code": "unknown_parameter"}, 400),
        (500, {"message": "oh"}, 503),
        (401, {"message": "bad key"}, 503),
    ):
        server.refusal, server.headers = (status, {"error": dict(error)}), {"retry-after": "7"}
        answer = await daemon.client.post("/v1/chat/completions", content=REQUEST % b"true", headers={"content-type": "application/json"})
        told = answer.json()["error"]
        assert answer.status_code == said and str(error["message"]) in told["message"]
        assert told["code"] == error.get("code", "engine_unavailable") or status == 429
        assert status != 429 or answer.headers["retry-after"] == "7"


async def test_a_client_that_does_not_read_holds_up_the_other_server_and_not_the_memory(daemon: Running, server: UpstreamServer) -> None:
    server.script = [{"content": "word " * 4000}] * 2500  # 50 MB, more than the kernel takes for both
    headers = {"content-type": "application/json"}
    async with daemon.client.stream("POST", "/v1/chat/completions", content=REQUEST % b"true", headers=headers) as answer:
        blocks = answer.aiter_raw()  # kept: it closes the connection when it goes
        await anext(blocks)
        still = 0
        while still < 5:
            sent = server.sent
            await asyncio.sleep(0.1)
            still = still + 1 if sent == server.sent else 0
        assert server.sent < 2400, "it goes on only as fast as the client reads"
    await until(lambda: server.open == 0)
    await until(lambda: daemon.services.reader.counts("default").inferences == 1)
    record = daemon.services.reader.inference(daemon.services.reader.last_receipt("default") or "")
    assert record.status == "aborted"


async def test_a_client_that_hangs_up_before_a_whole_reply_lets_go_of_the_other_server(daemon: Running, server: UpstreamServer) -> None:
    server.working = asyncio.Event()
    asked = asyncio.create_task(post(daemon, REQUEST % b"false"))
    await until(lambda: server.open == 1)
    asked.cancel()
    await until(lambda: not daemon.services.engine.stats.active and not daemon.services.serving.activity.in_flight)
    server.working.set()
    assert daemon.services.reader.last_receipt("default") is None, "no reply had begun"
    assert (await post(daemon, REQUEST % b"false"))[0] == 200


async def test_a_client_that_hangs_up_while_its_whole_reply_is_stored_leaves_the_record_as_it_is(
    daemon: Running, server: UpstreamServer
) -> None:
    disk = threading.Event()
    waiting = daemon.services.store.execute(lambda _: disk.wait(10))
    asked = asyncio.create_task(post(daemon, REQUEST % b"false"))
    try:
        await until(lambda: server.bodies and server.open == 0)
        asked.cancel()
        await asyncio.sleep(0.3)  # until the hang-up has been noticed
    finally:
        disk.set()
    await asyncio.wrap_future(waiting)
    await until(lambda: daemon.services.serving.activity.in_flight == 0)
    record = daemon.services.reader.inference(daemon.services.reader.last_receipt("default") or "")
    assert record.status == "ok" and daemon.services.reader.counts("default").inferences == 1


def test_a_receipt_takes_the_place_of_another_reefs() -> None:
    ended = [b'event: message_stop\ndata: {"type":"message_stop","reef":{"agent_record_id":"theirs"}}\n\n', b"data: [DONE]\n\n"]
    first, last = with_receipt(ended, {"agent_record_id": "ours"})
    assert first == b'event: message_stop\ndata: {"type":"message_stop","reef":{"agent_record_id":"ours"}}\n\n'
    assert last == ended[1]
    quoted = [rb'data: {"delta":"the key \"reef\":"}']
    assert with_receipt(quoted, {"x": 1})[0] == quoted[0].replace(b"}", b',"reef":{"x":1}}')
