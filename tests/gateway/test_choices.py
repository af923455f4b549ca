"""A client asks for several replies at once: they come side by side, each with its receipt, and end together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from daemon.engine.base import Event, GenerateRequest
from daemon.errors import Busy, EngineError
from daemon.records import Inference, Status
from daemon.serving.serving import Lease
from tests.daemon.running import Running, running, until
from tests.engine.fake import ScriptedEngine
from tests.gateway.frames import choices_of, stream, texts_of


def records_of(daemon: Running) -> list[Inference]:
    return [item for item in daemon.services.reader.items("default", kind="inference") if isinstance(item, Inference)]


async def quiet(daemon: Running, engine: ScriptedEngine) -> None:
    await until(lambda: daemon.services.serving.activity.in_flight == 0 and engine.running == 0)


async def test_choices_come_back_with_their_receipts(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        body = (await daemon.chat("hello", n=3)).json()
        assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
        assert len(set(body["reef"]["agent_record_ids"])) == 3
        one = (await daemon.chat("hello")).json()["usage"]
        assert body["usage"]["prompt_tokens"] == one["prompt_tokens"], "the prompt counts once"
        assert body["usage"]["completion_tokens"] == 3 * one["completion_tokens"]
        frames, _ = await stream(daemon, "hello", n=2)
        assert texts_of(frames) == {0: "echo: hello", 1: "echo: hello"}
        ended = [choice["index"] for choice in choices_of(frames) if choice["finish_reason"]]
        assert sorted(str(index) for index in ended) == ["0", "1"]


async def test_choices_are_generated_at_the_same_time(tmp_path: Path) -> None:
    engine = ScriptedEngine({"long": "word " * 10}, token_delay_s=0.02)
    async with running(tmp_path, engine) as daemon:
        following = asyncio.create_task(stream(daemon, "long", n=3))
        await until(lambda: engine.running == 3)
        frames, _ = await following
        order = [choice["index"] for choice in choices_of(frames)]
        assert order != sorted(order, key=str), "their pieces are interleaved"


async def test_a_seed_counts_on_so_that_choices_differ(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    async with running(tmp_path, engine) as daemon:
        await daemon.chat("hello", n=3, seed=7)
        assert [asked.sampling.seed for asked in engine.requests] == [7, 8, 9]
        assert sorted(str(record.sampling.seed) for record in records_of(daemon)) == ["7", "8", "9"]
        assert (await daemon.chat("hello", n=3, seed=(1 << 63) - 1)).status_code == 200


@pytest.mark.parametrize("streaming", [True, False])
async def test_hanging_up_stops_them_all_and_keeps_what_each_had(tmp_path: Path, streaming: bool) -> None:
    engine = ScriptedEngine({"long": "word " * 400}, token_delay_s=0.02)
    async with running(tmp_path, engine) as daemon:
        asking = asyncio.create_task(daemon.chat("long", n=3, stream=streaming))
        await until(lambda: engine.running == 3)
        await asyncio.sleep(0.08)
        asking.cancel()
        await quiet(daemon, engine)
        await until(lambda: len(records_of(daemon)) == 3)
        assert {record.status for record in records_of(daemon)} == {Status.ABORTED} and engine.cancelled == 3


async def test_hanging_up_before_the_first_token_frees_the_places_at_once(tmp_path: Path) -> None:
    """The prompt waits or is being read: nothing has been sent yet, so only the closed connection tells."""

    class Waits(ScriptedEngine):
        async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
            self.running += 1
            try:
                await asyncio.sleep(60)
                yield  # type: ignore[misc]
            finally:
                self.running -= 1

    for streaming in (True, False):
        engine = Waits()
        async with running(tmp_path, engine) as daemon:
            asking = asyncio.create_task(daemon.chat("x", n=2, stream=streaming))
            await until(lambda running=engine: running.running == 2)  # type: ignore[misc]
            asking.cancel()
            await until(lambda running=engine: running.running == 0, seconds=1)  # type: ignore[misc]
            await quiet(daemon, engine)
            assert records_of(daemon) == [], "the engine never took them"


async def test_hanging_up_while_the_second_is_being_started_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine({"long": "word " * 400}, token_delay_s=0.02)
    async with running(tmp_path, engine) as daemon:
        started, go_on, admit = asyncio.Event(), asyncio.Event(), daemon.services.serving.admit

        async def slow(scenario: str, session: str, pinned: str | None = None) -> Lease:
            if daemon.services.serving.activity.in_flight:
                started.set()
                await go_on.wait()
            return await admit(scenario, session, pinned)

        monkeypatch.setattr(daemon.services.serving, "admit", slow)
        asking = asyncio.create_task(daemon.chat("long", n=2, stream=True))
        await asyncio.wait_for(started.wait(), 5)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        go_on.set()
        await quiet(daemon, engine)


async def test_one_that_cannot_begin_stops_the_others_and_the_request_is_refused(tmp_path: Path) -> None:
    engine = ScriptedEngine({"long": "word " * 400}, streams=2, token_delay_s=0.02)
    async with running(tmp_path, engine) as daemon:
        for streaming in (False, True):
            response = await daemon.chat("long", n=3, stream=streaming)
            assert response.status_code == 429 and int(response.headers["retry-after"]) >= 1
            await quiet(daemon, engine)


async def test_one_that_breaks_in_a_stream_ends_all_and_names_what_is_on_disk(tmp_path: Path) -> None:
    engine = ScriptedEngine({"go": "abcdefgh" * 50}, token_delay_s=0.01)
    async with running(tmp_path, engine) as daemon:
        engine.fail_after = (3, EngineError("The engine crashed."))
        frames, lines = await stream(daemon, "go", n=2)
        assert frames[-1]["error"]["message"] == "The engine crashed." and lines[-2] == "data: [DONE]"  # type: ignore[index, call-overload]
        reef = frames[-1]["reef"]
        assert isinstance(reef, dict) and isinstance(reef["agent_record_ids"], list)
        stored = [daemon.services.reader.inference(str(receipt)) for receipt in reef["agent_record_ids"]]
        assert [record.status for record in stored] == [Status.ERROR, Status.ABORTED]


async def test_more_requests_than_can_be_held_are_refused_with_a_time_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.gateway.gateway.MAX_IN_FLIGHT", 4)
    engine = ScriptedEngine({"long": "word " * 20}, token_delay_s=0.01)
    async with running(tmp_path, engine) as daemon:
        answers = await asyncio.gather(*(daemon.chat("long") for _ in range(12)))
        statuses = [answer.status_code for answer in answers]
        assert statuses.count(200) == 4 and statuses.count(429) == 8
        assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 429)
        assert (await daemon.chat("x")).status_code == 200
        engine.fail_next = Busy("All places are taken.", retry_after_s=7)
        busy = await daemon.chat("x")
        assert busy.status_code == 429 and busy.headers["retry-after"] == "7"
