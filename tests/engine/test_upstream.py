"""An upstream server as the engine: the contract, and what a bad upstream does to a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.config import UpstreamConfig
from daemon.engine.base import Capability, Delta, Engine, GenerateRequest, LoRA
from daemon.engine.upstream.engine import UpstreamEngine
from daemon.errors import BadRequest, Busy, ContextOverflow, EngineError, ReefError
from daemon.records import JSON, Sampling
from tests.daemon.running import until
from tests.engine.contract import EngineContract, collect, request, user
from tests.engine.examples import PERSON_FORMAT, WEATHER
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
    async def test_it_declares_nothing_that_training_needs_and_learns_the_window(self, engine: Engine) -> None:
        needed = Capability.TOKEN_IDS | Capability.LOGPROBS | Capability.LORA | Capability.SCORE | Capability.TRAINABLE
        assert not engine.capabilities & needed
        assert engine.model.context_tokens == 2048

    async def test_what_the_client_set_arrives(self, engine: Engine, server: UpstreamServer) -> None:
        sampling = Sampling(temperature=0.5, top_p=0.9, stop=("END",), seed=3, logit_bias=((7, -100.0),))
        asked = GenerateRequest(
            user("hi"),
            sampling,
            max_tokens=5,
            tools=(WEATHER,),
            tool_choice="required",
            parallel_tool_calls=False,
            response_format=PERSON_FORMAT,
            top_logprobs=3,
            template_values={"enable_thinking": False},
            extra={"reasoning_effort": "low"},
        )
        await collect(engine, asked)
        body = server.bodies[-1]
        assert body["model"] == "scripted" and body["stream"] is True
        assert (body["temperature"], body["top_p"], body["stop"], body["seed"], body["max_tokens"]) == (0.5, 0.9, ["END"], 3, 5)
        assert body["tools"] == [WEATHER] and body["tool_choice"] == "required" and body["parallel_tool_calls"] is False
        assert body["response_format"] == PERSON_FORMAT and body["logit_bias"] == {"7": -100.0}
        assert body["logprobs"] is True and body["top_logprobs"] == 3
        assert body["chat_template_kwargs"] == {"enable_thinking": False} and body["reasoning_effort"] == "low"
        assert "top_k" not in body
        await collect(engine, replace(asked, tools=(), tool_choice="none", response_format=None, top_logprobs=None, template_values={}))
        left = {"tools", "tool_choice", "parallel_tool_calls", "response_format", "logprobs", "top_logprobs", "chat_template_kwargs"}
        assert not left & server.bodies[-1].keys(), "a server that does not know a field must not see it"

    async def test_a_plain_text_goes_to_completions_with_its_suffix(self, engine: Engine, server: UpstreamServer) -> None:
        asked = GenerateRequest((), Sampling(), text="def f", suffix="return x", top_logprobs=1)
        events = [event async for event in engine.generate(asked)]
        assert server.paths[-1] == "/v1/completions"
        assert (server.bodies[-1]["prompt"], server.bodies[-1]["suffix"], server.bodies[-1]["logprobs"]) == ("def f", "return x", 1)
        assert events[0] == Delta(
            "def ",
            logprobs=(
                {
                    "token": "def ",
                    "logprob": -0.5,
                    "bytes": list(b"def "),
                    "top_logprobs": [
                        {"token": "def ", "logprob": -0.5, "bytes": list(b"def ")},
                        {"token": "no", "logprob": -1.5, "bytes": list(b"no")},
                    ],
                },
            ),
        )

    async def test_a_log_probability_that_is_no_number_breaks_no_reply(self, engine: Engine, server: UpstreamServer) -> None:
        for wrong in (float("-inf"), float("nan")):
            server.other_logprob = wrong
            events = [event async for event in engine.generate(replace(request(), top_logprobs=2))]
            json.dumps([event.logprobs for event in events if isinstance(event, Delta)], allow_nan=False)

    async def test_vectors_keep_the_order_of_their_texts(self, engine: Engine, server: UpstreamServer) -> None:
        found = await engine.embed(("eee", "xx"))
        assert found.vectors == ((0.8, 0.6), (1.0, 0.0)) and found.tokens == 6
        for wrong in (
            {"data": []},
            {"data": [{"index": 0, "embedding": [0, 0]}]},
            {"data": [{"index": 0, "embedding": [1, "x"]}]},
            "no",
            [1],
        ):
            server.vectors = wrong
            with pytest.raises(EngineError, match="no list of vectors"):
                await engine.embed(("a",))

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
    monkeypatch.setattr("daemon.engine.upstream.events.REPLY_LIMIT_BYTES", 4096)
    server.script = [{"content": "word "}] * 500
    with pytest.raises(EngineError, match="without end"):
        await collect(engine, request())
    assert engine.stats.active == 0


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("\u00b2", 1), ("Wed, 21 Oct 2026 07:28:00 GMT", 1), (None, 1), ("9" * 30, 1)])
async def test_any_retry_after_header_is_a_number_of_seconds(
    engine: Engine, server: UpstreamServer, header: str | None, seconds: int
) -> None:
    server.headers = {} if header is None else {"retry-after": header}
    server.refusal = (429, {"error": {"message": "slow down"}})
    with pytest.raises(Busy) as caught:
        await collect(engine, request())
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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.engine.upstream.engine._FIRST_PAUSE_S", 0.02)


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_is_away_at_start_is_waited_for_and_requests_say_so() -> None:
    async with UpstreamServer() as server:
        url = server.url
    engine = UpstreamEngine(UpstreamConfig(kind="upstream", url=url, model="scripted"))
    await engine.start()
    try:
        assert engine.stats.state == "restarting" and "cannot be reached" in engine.stats.detail
        with pytest.raises(EngineError, match="cannot be reached"):
            await collect(engine, request())
        with pytest.raises(EngineError, match="cannot be reached"):
            await engine.embed(("a",))
        async with UpstreamServer(int(url.split(":")[2].split("/")[0])):
            assert (await collect(engine, request()))[0], "a request need not wait for the lookout"
            await until(lambda: engine.stats.state == "ready")
            assert engine.model.context_tokens == 2048 and engine.stats.detail == ""
        with pytest.raises(EngineError):
            await collect(engine, request())
        assert engine.stats.state == "restarting", "and it is noticed when it goes away later"
    finally:
        await engine.stop()
    assert engine.stats.state == "stopped"


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_loads_its_model_is_waited_for(server: UpstreamServer) -> None:
    server.models_status = 503
    engine = UpstreamEngine(UpstreamConfig(kind="upstream", url=server.url, model="scripted"))
    await engine.start()
    assert engine.stats.state == "restarting" and "503" in engine.stats.detail
    server.models_status = 200
    await until(lambda: engine.stats.state == "ready")
    await engine.stop()


async def test_a_server_that_refuses_the_key_is_an_error_at_start(server: UpstreamServer) -> None:
    server.models_status = 401
    with pytest.raises(EngineError, match="upstream says") as caught:
        await UpstreamEngine(UpstreamConfig(kind="upstream", url=server.url, model="scripted")).start()
    assert "key" in caught.value.hint


async def test_a_key_that_is_not_set_is_named(server: UpstreamServer) -> None:
    config = UpstreamConfig(kind="upstream", url=server.url, model="m", api_key_env="NO_SUCH_VARIABLE")
    with pytest.raises(EngineError, match="NO_SUCH_VARIABLE"):
        await UpstreamEngine(config).start()
