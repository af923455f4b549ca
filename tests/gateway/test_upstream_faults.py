"""Whatever the server behind us does wrong, each client is told in the words of its wire, soon, and the daemon goes on."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import httpx
import pytest

from daemon.config import UpstreamConfig
from daemon.engine.upstream.engine import UpstreamEngine
from tests.daemon.running import Running, running, until
from tests.gateway.faulty_upstream import FAULTS, FaultyUpstream, whole

ASKED = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/completions": {"prompt": "hello"},
    "/v1/responses": {"input": "hello"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 100},
}
SPOKEN = {"its own wire": ("chat", "completions", "responses", "messages"), "translated": ("chat", "completions")}
SOON_S = 8.0


def told(answer: httpx.Response, text: str) -> str:
    """The sentence that the client gets. Fails the test where it gets none, or a reply that looks whole."""
    path = answer.request.url.path
    if "text/event-stream" not in answer.headers.get("content-type", ""):
        assert answer.status_code >= 400, f"a whole answer of a broken reply: {text[:300]}"
        error = json.loads(text)["error"]
        assert (json.loads(text).get("type") == "error") == path.endswith("/messages")
        return str(error["message"])
    assert "Traceback" not in text
    events = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ") and line != "data: [DONE]"]
    last = [json.loads(event) for event in events if "error" in event or "failed" in event]
    assert last, f"a stream that ends as if nothing had happened: {text[-300:]}"
    ended = ("response.completed", "message_stop", '"finish_reason":"stop"', '"finish_reason":"length"')
    assert not any(mark in text for mark in ended), text[-400:]
    found = last[-1]
    error = found.get("error") or found.get("response", {}).get("error") or found
    return str(error["message"])


async def ask(daemon: Running, path: str, stream: bool) -> tuple[httpx.Response, str]:
    body = {"model": "scripted", "stream": stream, **ASKED[path]}
    async with daemon.client.stream("POST", path, json=body, timeout=SOON_S) as answer:
        return answer, (await answer.aread()).decode(errors="replace")


@pytest.mark.parametrize("spoken", ["its own wire", pytest.param("translated", marks=pytest.mark.e2e)])
async def test_each_fault_on_each_wire_is_told_and_recorded_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spoken: str
) -> None:
    monkeypatch.setattr("daemon.engine.upstream.engine._READ_TIMEOUT_S", 0.3)
    monkeypatch.setattr("daemon.engine.upstream.events.REPLY_LIMIT_BYTES", 200_000)
    monkeypatch.setattr("daemon.engine.upstream.bodies.REPLY_LIMIT_BYTES", 200_000)
    monkeypatch.setattr("daemon.engine.upstream.events.EVENT_LIMIT_BYTES", 50_000)
    caplog.set_level(logging.ERROR)
    async with FaultyUpstream() as server:
        config = UpstreamConfig(kind="upstream", url=server.url, model="scripted", wires=SPOKEN[spoken])
        async with running(tmp_path, UpstreamEngine(config)) as daemon:
            wrong: list[str] = []
            for name, fault in FAULTS.items():
                server.fault = fault
                tries = [(path, stream) for path in ASKED for stream in (False, True)]
                answers = await asyncio.gather(*(ask(daemon, path, stream) for path, stream in tries))
                for (path, stream), (answer, text) in zip(tries, answers, strict=True):
                    try:
                        sentence = told(answer, text)
                        assert len(sentence) > 10 and sentence[0].isupper(), sentence
                    except (AssertionError, ValueError, KeyError) as error:
                        wrong.append(f"{name} on {path}, {'streamed' if stream else 'whole'}: {error!r}\n{text[-300:]}")
            assert not wrong, "\n\n".join(wrong)
            assert server.visitors <= len(FAULTS) * len(ASKED) * 2, "nothing is sent twice to a server that may have begun"
            await until(lambda: daemon.services.serving.activity.in_flight == 0)
            items = daemon.services.reader.items("default", limit=1000, kind="inference")
            assert not [item for item in items if item.status.value == "ok"], "a broken reply is no reply"  # type: ignore[union-attr]
            assert not [record for record in caplog.records if record.exc_info], "nothing of this is a bug of ours"

            async def well(writer: asyncio.StreamWriter, stream: bool, path: bytes) -> None:
                writer.write(whole(b'{"choices":[{"index":0,"message":{"role":"assistant","content":"well"},"finish_reason":"stop"}]}'))

            server.fault = well
            await until(lambda: daemon.services.engine.stats.state == "ready")
            if spoken == "its own wire":
                assert (await daemon.chat("hello")).json()["choices"][0]["message"]["content"] == "well"


async def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultyUpstream() as server, FaultyUpstream() as other:

        async def away(writer: asyncio.StreamWriter, stream: bool, path: bytes) -> None:
            writer.write(whole(b"", status=b"307 Temporary Redirect", more=b"location: " + other.url.encode() + path + b"\r\n"))

        server.fault = other.fault = away
        async with running(tmp_path, UpstreamEngine(UpstreamConfig(kind="upstream", url=server.url, model="scripted"))) as daemon:
            for path in ASKED:
                for stream in (False, True):
                    told(*await ask(daemon, path, stream))
            assert server.visitors and not other.visitors
