"""The bounds that docs/security.md lists: what is too large, too slow or too much has its own answer, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import struct
import zlib
from pathlib import Path

import pytest

from daemon import listener
from daemon.gateway import body as body_module
from tests.daemon.running import running, until
from tests.engine.fake import ScriptedEngine
from tests.gateway.raw import answer, bodies, chat_bytes, is_well, request_bytes, serves, statuses

JSON_TYPE = "Content-Type: application/json"


# Limits, each with its own error


async def test_limits_each_has_its_own_error_and_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedEngine(context_tokens=256)) as daemon:
        post, path = daemon.client.post, "/v1/chat/completions"
        typed = {"content-type": "application/json"}
        ask = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}
        found = {
            "url": await daemon.client.get("/v1/models?" + "x" * 9000),
            "header count": await daemon.client.get("/v1/models", headers={f"x-{n}": "1" for n in range(120)}),
            "header bytes": await daemon.client.get("/v1/models", headers={"x-long": "x" * 70_000}),
            "encoding": await post(path, content=b"{}", headers={**typed, "content-encoding": "br"}),
            "depth": await post(path, content=b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", headers=typed),
            "values": await post(path, content=b'{"a":[' + b"[]," * 600_000 + b"1]}", headers=typed),
            "prompt": await post(path, json={**ask, "messages": [{"role": "user", "content": "x" * 600_000}]}),
            "choices": await post(path, json={**ask, "n": 9}),
            "scenario": await post(path, json=ask, headers={"x-reef-scenario": "../../etc"}),
            "references": await post("/reef/report", json={"score": 1, "references": ["x"] * 1001}),
            "batch": await post("/reef/records/batch", json={"records": [{}] * 1001}),
            "page": await daemon.client.get("/reef/scenarios/default/records?limit=101"),
        }
        codes = {name: got.status_code for name, got in found.items()}
        assert codes == {
            "url": 414,
            "header count": 431,
            "header bytes": 431,
            "encoding": 415,
            **dict.fromkeys(("depth", "values", "prompt", "choices", "scenario", "references", "batch", "page"), 400),
        }
        large = request_bytes(daemon, "POST", path, [JSON_TYPE, f"Content-Length: {65 << 20}"])
        assert statuses(await answer(daemon, large)) == [413], "before a byte of it was read"
        assert found["prompt"].json()["error"]["code"] == "context_length_exceeded"
        for name, got in found.items():
            error = got.json()["error"]
            assert error["message"] and "Traceback" not in got.text, name
        counts = daemon.services.reader.counts("default")
        assert (counts.inferences, counts.reports, counts.imported) == (0, 0, 0)


async def test_gzip_bombs_of_every_kind_are_small_in_memory(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        headers = [JSON_TYPE, "Content-Encoding: gzip", "Transfer-Encoding: chunked"]
        layered = gzip.compress(gzip.compress(b" " * (20 << 20), 1))
        member = gzip.compress(b"{}")
        name = struct.pack("<BBBBIBB", 0x1F, 0x8B, 8, 8, 0, 0, 255) + b"n" * 300_000  # a file name without end
        for data, expected in (
            (gzip.compress(b" " * (66 << 20), 1), [413]),
            (layered, [400]),
            (member + b"\x00" * 400_000, [400]),
            (member * 2, [400]),
            (name, [400]),
            (zlib.compress(b"{}"), [400]),
        ):
            chunked = b"".join(b"%x\r\n%s\r\n" % (len(data[at : at + 65536]), data[at : at + 65536]) for at in range(0, len(data), 65536))
            got = await answer(daemon, request_bytes(daemon, "POST", "/v1/chat/completions", headers, chunked + b"0\r\n\r\n"))
            assert statuses(got) == expected, data[:40]
        await until(lambda: body_module._Held.total_bytes == 0)
        await is_well(daemon)


# Slow and half-open clients


async def test_slow_bodies_are_ended_and_hold_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "CHUNK_TIMEOUT_S", 0.2)
    async with running(tmp_path) as daemon:
        head = request_bytes(daemon, "POST", "/v1/chat/completions", [JSON_TYPE, "Content-Length: 1000"])
        slow = [asyncio.create_task(answer(daemon, head + b"{")) for _ in range(20)]
        await is_well(daemon)
        for got in await asyncio.gather(*slow):
            assert statuses(got) == [408] and b"too slowly" in got


async def test_slow_bodies_that_send_a_byte_now_and_then_are_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "START_S", 0.3)
    async with running(tmp_path) as daemon:
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        writer.write(request_bytes(daemon, "POST", "/v1/chat/completions", [JSON_TYPE, "Content-Length: 1000"]))

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                while not writer.is_closing():
                    writer.write(b" ")
                    await asyncio.sleep(0.02)

        task = asyncio.create_task(drip())
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 3)
        writer.close()
        await task
        await is_well(daemon)


async def test_slow_reading_a_stream_that_nobody_takes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STALLED_S", 0.3)
    engine = ScriptedEngine({"much": "word " * 60_000}, context_tokens=1 << 20)
    async with running(tmp_path, engine) as daemon:
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # else the kernel takes all of it for the client
        small.setblocking(False)
        await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", daemon.port))
        reader, writer = await asyncio.open_connection(sock=small, limit=1024)
        writer.write(chat_bytes(daemon, "much", stream=True))
        await until(lambda: engine.running == 1)
        await serves(daemon)
        await until(lambda: daemon.services.reader.counts("default").inferences == 2, seconds=20)
        assert daemon.services.measures.records["ok"] >= 1
        await asyncio.sleep(0.4)
        taken = b""
        with contextlib.suppress(ConnectionError):
            while piece := await asyncio.wait_for(reader.read(1 << 20), 5):
                taken += piece  # what the kernel held; then the connection is gone
        assert b"[DONE]" not in taken
        writer.close()
        await until(lambda: daemon.services.serving.activity.in_flight == 0)


async def test_half_open_connections_beyond_the_limit_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTION_LIMIT", 40)
    async with running(tmp_path) as daemon:
        await is_well(daemon)  # a client that is connected stays so
        held = [await asyncio.open_connection("127.0.0.1", daemon.port) for _ in range(60)]
        refused = 0
        for reader, _ in held[45:]:
            with contextlib.suppress(TimeoutError, ConnectionError):
                refused += b" 503 " in await asyncio.wait_for(reader.readline(), 1)
        assert refused >= 10
        await is_well(daemon)
        for _, writer in held:
            writer.close()
        for _ in range(100):
            if statuses(await answer(daemon, request_bytes(daemon))) == [200]:
                return
        pytest.fail("there is room again, and nobody is let in")


async def test_many_requests_on_one_connection_are_answered_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        got = await answer(
            daemon,
            b"".join(chat_bytes(daemon, f"number {number}", headers=["Connection: close"] if number == 59 else []) for number in range(60)),
            seconds=20,
            to_the_end=True,
        )
        said = [json.loads(body)["choices"][0]["message"]["content"] for body in bodies(got)]
        assert said == [f"echo: number {number}" for number in range(60)]
        assert daemon.services.reader.counts("default").inferences == 60


# Floods


async def test_a_flood_of_tiny_chunks_is_one_body(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "y" * 60_000}]}).encode()
        chunks = b"".join(b"1;x=%s\r\n%c\r\n" % (b"e" * (number % 7), byte) for number, byte in enumerate(body)) + b"0\r\n\r\n"
        flood = asyncio.create_task(
            answer(
                daemon, request_bytes(daemon, "POST", "/v1/chat/completions", [JSON_TYPE, "Transfer-Encoding: chunked"], chunks), seconds=20
            )
        )
        await serves(daemon)
        assert statuses(await flood) == [200]


async def test_trailers_are_not_headers(tmp_path: Path) -> None:
    """Else they would come after the door, with another scenario or origin, and without end."""
    async with running(tmp_path) as daemon:
        body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "x"}]}).encode()
        trailers = b"x-reef-scenario: other\r\norigin: https://evil.example\r\n" + b"x-flood: 1\r\n" * 5000
        chunks = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers)
        got = await answer(daemon, request_bytes(daemon, "POST", "/v1/chat/completions", [JSON_TYPE, "Transfer-Encoding: chunked"], chunks))
        assert statuses(got) == [200] or statuses(got) == [400]
        assert daemon.services.serving.head("other") is None
        await is_well(daemon)


async def test_more_streams_than_are_answered_at_once_are_told_when_to_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine({"long": "word " * 60}, token_delay_s=0.02, streams=400)
    async with running(tmp_path, engine) as daemon:
        got = await asyncio.gather(
            *(
                answer(daemon, chat_bytes(daemon, "long", stream=True, headers=["Connection: close"]), seconds=20, to_the_end=True)
                for _ in range(300)
            )
        )
        codes = [statuses(one)[0] for one in got]
        assert codes.count(200) >= 256 and codes.count(200) + codes.count(429) == 300
        assert all(b"retry-after" in one for one in got if statuses(one) == [429])
        receipts = {one.rpartition(b'"agent_record_id":"')[2].partition(b'"')[0] for one in got if statuses(one) == [200]}
        assert len(receipts) == codes.count(200) == daemon.services.reader.counts("default").inferences
        await is_well(daemon)
