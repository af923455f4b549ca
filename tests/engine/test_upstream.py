"""An upstream server as the engine: the contract, and what a bad upstream does to a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from daemon.config import UpstreamConfig
from daemon.engine.base import Capability, Delta, Engine, GenerateRequest, LoRA
from daemon.engine.upstream import UpstreamEngine
from daemon.engine.upstream_errors import raise_for_status
from daemon.errors import BadRequest, Busy, ContextOverflow, EngineError, ReefError
from daemon.records import JSON, Sampling
from tests.engine.contract import EngineContract, collect, request, user
from tests.engine.upstream_server import UpstreamServer


@pytest.fixture
async def server() -> AsyncIterator[UpstreamServer]:
    async with UpstreamServer() as running:
        yield running


@pytest.fixture
async def engine(server: UpstreamServer) -> AsyncIterator[Engine]:
    upstream = UpstreamEngine(UpstreamConfig(kind="upstream", url=server.url, model="scripted"))
    await upstream.start()
    yield upstream
    await upstream.stop()


@pytest.fixture
def lora(tmp_path: Path) -> LoRA:
    return LoRA("ab" * 32, tmp_path / "none.gguf")


class TestUpstreamEngine(EngineContract):
    async def test_it_declares_nothing_and_learns_the_window(self, engine: Engine) -> None:
        assert engine.capabilities == Capability.NONE
        assert engine.model.context_tokens == 2048

    async def test_what_the_client_set_arrives(self, engine: Engine, server: UpstreamServer) -> None:
        tools: tuple[dict[str, JSON], ...] = ({"type": "function", "function": {"name": "look"}},)
        sampling = Sampling(temperature=0.5, top_p=0.9, stop=("END",), seed=3)
        await collect(engine, GenerateRequest(user("hi"), sampling, max_tokens=5, tools=tools, extra={"response_format": {"type": "text"}}))
        body = server.bodies[-1]
        assert body["model"] == "scripted" and body["stream"] is True
        assert (body["temperature"], body["top_p"], body["stop"], body["seed"], body["max_tokens"]) == (0.5, 0.9, ["END"], 3, 5)
        assert body["tools"] == list(tools) and body["response_format"] == {"type": "text"}
        assert "top_k" not in body

    async def test_tool_calls_and_reasoning_stream_through(self, engine: Engine, server: UpstreamServer) -> None:
        call: dict[str, JSON] = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        server.script = [{"reasoning_content": "hm"}, {"tool_calls": [call]}]
        server.finish_reason = "tool_calls"
        events = [event async for event in engine.generate(request())]
        assert events[0] == Delta(reasoning="hm")
        assert events[1] == Delta(tool_calls=(call,))

    @pytest.mark.parametrize(
        ("status", "error", "kind"),
        [
            (400, {"message": "bad temperature", "param": "temperature"}, BadRequest),
            (400, {"message": "too long", "code": "context_length_exceeded"}, ContextOverflow),
            (401, {"message": "no key"}, EngineError),
            (429, {"message": "slow down"}, Busy),
            (500, {"message": "oh"}, EngineError),
            (302, None, EngineError),
        ],
    )
    async def test_refusals_keep_their_meaning(
        self, engine: Engine, server: UpstreamServer, status: int, error: JSON, kind: type[ReefError]
    ) -> None:
        server.refusal = (status, {"error": error})
        with pytest.raises(kind) as caught:
            await collect(engine, request())
        assert type(caught.value) is kind

    @pytest.mark.parametrize("fault", ["hang up", "garbage", "no end"])
    async def test_a_broken_stream_is_an_error_not_a_short_reply(self, engine: Engine, server: UpstreamServer, fault: str) -> None:
        server.fault = fault
        with pytest.raises(EngineError):
            await collect(engine, request("one two three four five"))
        server.fault = ""
        assert engine.stats.active == 0
        assert (await collect(engine, request()))[0]


async def test_a_reply_without_end_is_broken_off(engine: Engine, server: UpstreamServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.engine.upstream._REPLY_LIMIT_BYTES", 4096)
    server.script = [{"content": "word "}] * 500
    with pytest.raises(EngineError, match="without end"):
        await collect(engine, request())
    assert engine.stats.active == 0


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("\u00b2", 1), ("Wed, 21 Oct 2026 07:28:00 GMT", 1), (None, 1), ("9" * 30, 1)])
async def test_any_retry_after_header_is_a_number_of_seconds(header: str | None, seconds: int) -> None:
    headers = {} if header is None else {"retry-after": header.encode("latin-1")}
    with pytest.raises(Busy) as caught:
        await raise_for_status(httpx.Response(429, headers=headers, json={"error": {"message": "slow down"}}))
    assert caught.value.retry_after_s == seconds


async def test_hanging_up_here_hangs_up_there(engine: Engine, server: UpstreamServer) -> None:
    server.delay_s = 0.05
    stream = engine.generate(request("a b c d e f g h i j k l m n o p q r s t", max_tokens=None))
    await anext(stream)
    await stream.aclose()
    for _ in range(100):
        if server.open == 0:
            break
        await asyncio.sleep(0.02)
    assert server.open == 0


async def test_a_server_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(EngineError, match="cannot be reached"):
        await UpstreamEngine(UpstreamConfig(kind="upstream", url="http://127.0.0.1:9/v1", model="m")).start()


async def test_a_key_that_is_not_set_is_named(server: UpstreamServer) -> None:
    config = UpstreamConfig(kind="upstream", url=server.url, model="m", api_key_env="NO_SUCH_VARIABLE")
    with pytest.raises(EngineError, match="NO_SUCH_VARIABLE"):
        await UpstreamEngine(config).start()
