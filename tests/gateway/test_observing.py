"""What can be seen of a request afterwards: its id, its line in the log, and the metrics. Never its text, never a token."""

from __future__ import annotations

import json
import logging
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.errors import EngineError
from daemon.gateway.observing import Observing
from daemon.observing.log_lines import plain, render
from daemon.observing.logs import _entry
from daemon.observing.measures import RequestMeasures
from daemon.records import JSONObject
from tests.daemon.running import running, until
from tests.engine.fake import ScriptedEngine


class Kept(logging.Handler):
    """What the log file would hold."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[JSONObject] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.entries.append(_entry(record))

    def named(self, name: str) -> list[JSONObject]:
        return [entry for entry in self.entries if entry["logger"] == name]


@pytest.fixture
def kept(caplog: pytest.LogCaptureFixture) -> Iterator[Kept]:
    caplog.set_level(logging.INFO)
    handler = Kept()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


async def test_each_answer_carries_a_request_id_and_the_log_has_it(tmp_path: Path, kept: Kept) -> None:
    async with running(tmp_path) as daemon:
        given = await daemon.client.get("/v1/models", headers={"x-request-id": "mine-42.a:b_c"})
        assert given.headers.get_list("x-request-id") == ["mine-42.a:b_c"]
        for odd in ("two words", "x" * 200, "<script>", 'a"b', "", "ghp_" + "a1B2" * 9):
            made = (await daemon.client.get("/v1/models", headers={"x-request-id": odd})).headers["x-request-id"]
            assert re.fullmatch("req_[0-9a-z]{24}", made), odd
        refused = await daemon.bare.get("/v1/models", headers={"x-request-id": "refused-1"})
        assert refused.headers["x-request-id"] == "refused-1"
        logged = {str(one["hint"]) for one in kept.named("reef.access") if one["status"] == 401}
        assert "TOKEN" in logged.pop()


async def test_a_line_a_request_with_numbers_and_names_and_without_what_was_said(tmp_path: Path, kept: Kept) -> None:
    async with running(tmp_path, ScriptedEngine({"SECRET question": "SECRET answer"})) as daemon:
        answer = await daemon.chat("SECRET question", user="SECRET user", metadata={"k": "SECRET value"})
        body = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "SECRET question"}]}
        streamed = await daemon.client.post("/reef/scenarios/editor/v1/chat/completions?key=SECRET", json=body)
        await daemon.chat("x", model="SECRET-model")
        await daemon.chat("x", temperature="SECRET")
        await daemon.client.get("/SECRET/path?token=SECRET")
        await daemon.bare.get("/v1/models", headers={"authorization": "Bearer SECRET"})
        lines = kept.named("reef.access")
        assert [(one["method"], one["route"], one["status"]) for one in lines] == [
            ("POST", "/v1/chat/completions", 200),
            ("POST", "/v1/chat/completions", 200),
            ("POST", "/v1/chat/completions", 404),
            ("POST", "/v1/chat/completions", 400),
            ("GET", "other", 404),
            ("GET", "other", 401),
        ]
        whole, stream, unknown, bad, *_ = lines
        assert whole["receipt"] == answer.headers["x-reef-agent-record-id"] and whole["request_id"] == answer.headers["x-request-id"]
        assert whole["scenario"] == "default" and stream["scenario"] == "editor" and whole["release"] == "r1" and whole["session"]
        assert stream["receipt"] in streamed.text and float(str(stream["first_token_ms"])) <= float(str(stream["ms"]))
        assert isinstance(whole["completion_tokens"], int) and whole["completion_tokens"] > 0 and isinstance(whole["prompt_tokens"], int)
        assert unknown["error"] == "model_not_found" and unknown["param"] == "model" and "reef models use" in str(unknown["hint"])
        assert bad["param"] == "temperature"
        everything = json.dumps([entry for entry in kept.entries if entry["logger"] != "httpx"])
        assert "SECRET" not in everything and str(daemon.client.headers["authorization"])[7:] not in everything
        shown = render(whole, plain)
        assert f"POST /v1/chat/completions 200 {float(str(whole['ms'])):.0f} ms" in shown and str(whole["receipt"]) in shown
        assert render(unknown, plain).splitlines()[1].strip() == unknown["hint"]


async def test_what_is_logged_in_a_thread_or_task_names_the_request(tmp_path: Path, kept: Kept) -> None:
    engine = ScriptedEngine()
    async with running(tmp_path, engine) as daemon:
        engine.fail_after = (1, EngineError("The engine is broken.", "Mend it."))
        body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}
        await daemon.client.post("/v1/chat/completions", json=body, headers={"x-request-id": "one-1"})
        [said] = kept.named("reef.http")
        assert said["request_id"] == "one-1" and "The engine is broken." in str(said["message"])
        assert [one["outcome"] for one in kept.named("reef.access")] == ["error"], "the record of what had begun"


async def test_a_stream_that_breaks_is_logged_with_what_to_do(tmp_path: Path, kept: Kept) -> None:
    engine = ScriptedEngine({"long": "word " * 50})
    async with running(tmp_path, engine) as daemon:
        engine.fail_after = (3, EngineError("The engine is broken.", "Mend it."))
        body = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "long"}]}
        assert "The engine is broken." in (await daemon.client.post("/v1/chat/completions", json=body)).text
        [line] = kept.named("reef.access")
        assert (line["status"], line["level"], line["outcome"], line["hint"]) == (200, "warning", "error", "Mend it.") and line["receipt"]


async def test_a_hang_up_is_logged_as_such(tmp_path: Path, kept: Kept) -> None:
    engine = ScriptedEngine({"long": "word " * 2000}, token_delay_s=0.005)
    async with running(tmp_path, engine) as daemon:
        body = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "long"}]}
        async with daemon.client.stream("POST", "/v1/chat/completions", json=body) as stream:
            async for _ in stream.aiter_lines():
                break
        await until(lambda: kept.named("reef.access"))
        [line] = kept.named("reef.access")
        assert line["outcome"] == "aborted" and line["receipt"]
        assert daemon.services.measures.records["aborted"] == 1


async def test_supervisors_that_ask_each_second_do_not_fill_the_log(tmp_path: Path, kept: Kept) -> None:
    async with running(tmp_path) as daemon:
        for path in ("/healthz", "/health", "/metrics"):
            assert (await daemon.client.get(path)).status_code == 200
        assert not kept.named("reef.access")
        assert (await daemon.bare.get("/metrics")).status_code == 401
        assert kept.named("reef.access")[0]["status"] == 401


async def test_it_costs_a_request_microseconds() -> None:
    """A bound with much room: it is measured on machines that do other things at the same time."""

    async def app(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def receive() -> dict[str, object]:
        return {}

    async def send(message: object) -> None: ...

    observed = Observing(app, [], RequestMeasures())
    rounds = []
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(50):
            await observed({"type": "http", "method": "GET", "headers": []}, receive, send)
        rounds.append((time.perf_counter() - started) / 50)
    assert min(rounds) < 100e-6, f"{min(rounds) * 1e6:.0f} µs, median {statistics.median(rounds) * 1e6:.0f} µs"
