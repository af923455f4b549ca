"""The engine's worker hangs, dies, never comes up, or finds another model: requests end with a sentence, and the engine comes back."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.engine.llama import supervisor as module
from daemon.engine.llama.protocol import WorkerSettings
from daemon.engine.llama.supervisor import Supervisor, WorkerGone
from daemon.errors import DataError, EngineError
from daemon.records import JSONObject

WORKER = "tests.engine.odd_worker"
ASK: JSONObject = {"type": "tokenize", "text": "x"}


@pytest.fixture(autouse=True)
def _importable_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(module, "_threads_that_soon_sleep", lambda: {"PYTHONPATH": str(Path(__file__).parents[2])})


@contextlib.asynccontextmanager
async def supervised(
    tmp_path: Path, how: str = "", *, start: bool = True, ready_s: float = 10, silence_s: float = 10
) -> AsyncIterator[Supervisor]:
    model = tmp_path / "model.gguf"
    model.write_text(how)
    settings = WorkerSettings(model=model, context_tokens=512, streams=1, threads=1, gpu_layers=0)
    found = Supervisor(settings, tmp_path / "engine.log", module=WORKER, ready_s=ready_s, silence_s=silence_s)
    try:
        if start:
            await found.start(hashlib.sha256(how.encode()).hexdigest())
        yield found
    finally:
        await found.stop()


async def _pid(worker: Supervisor) -> int:
    answer = await worker.ask(ASK)
    assert isinstance(answer, list) and isinstance(answer[0], int)
    return answer[0]


async def test_what_the_model_can_do_is_known_once_it_is_ready(tmp_path: Path) -> None:
    async with supervised(tmp_path) as worker:
        assert worker.facts is not None
        assert (worker.facts.context_tokens, worker.facts.pools, worker.facts.fill_in_middle) == (512, True, False)
        assert worker.facts.tool_format == "hermes"
        assert worker.worker_pid == await _pid(worker)


async def test_a_worker_that_hangs_is_ended_and_the_next_one_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with supervised(tmp_path, silence_s=0.3) as worker:
        first = await _pid(worker)
        with pytest.raises(WorkerGone):
            await worker.ask({**ASK, "text": "hang"})  # asked a second time, it hangs the second worker too
        assert await _pid(worker) != first
        assert worker.stats.restarts == 2 and caplog.text.count("said nothing for") == 2
        assert worker.stats.state == "ready"


async def test_slow_work_is_no_hang_and_neither_is_idleness(tmp_path: Path) -> None:
    async with supervised(tmp_path, silence_s=0.15) as worker:
        first = await _pid(worker)
        assert await worker.ask({**ASK, "text": "slow"}) == [first]
        await asyncio.sleep(0.4)
        assert await _pid(worker) == first


async def test_a_worker_that_never_loads_is_given_up_with_a_sentence(tmp_path: Path) -> None:
    async with supervised(tmp_path, "never ready", start=False, ready_s=0.3) as worker:
        with pytest.raises(EngineError, match=r"(did not start|said nothing)"):
            await worker.start("")


async def test_a_model_that_does_not_load_is_not_tried_for_ever(tmp_path: Path) -> None:
    async with supervised(tmp_path, "cannot load", start=False) as worker:
        with pytest.raises(DataError, match="cannot load it"):
            await worker.start("")
        assert worker.stats.restarts == 0


async def test_while_it_restarts_requests_hear_when_to_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAIT_FOR_RESTART_S", 0.05)
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 5.0)
    async with supervised(tmp_path) as worker:
        with pytest.raises(EngineError) as caught:
            await worker.ask({**ASK, "text": "die"})
        assert 5 <= caught.value.retry_after_s <= 10
        assert worker.stats.state == "restarting" and worker.stats.restarts == 1


@pytest.mark.parametrize(("change", "words"), [("other weights", "was replaced"), (None, "is gone")])
async def test_another_file_in_the_model_s_place_is_not_served_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str | None, words: str
) -> None:
    monkeypatch.setattr(module, "_WAIT_FOR_RESTART_S", 0.3)
    async with supervised(tmp_path) as worker:
        model = tmp_path / "model.gguf"
        before = model.read_text()
        model.unlink()
        if change is not None:
            model.write_text(change)
        with pytest.raises(EngineError, match=words):
            await worker.ask({**ASK, "text": "die"})
        model.write_text(before)  # put back: another file, the same content
        monkeypatch.setattr(module, "_WAIT_FOR_RESTART_S", 10)
        assert await _pid(worker)


async def test_two_who_stop_it_at_once_leave_no_worker_behind(tmp_path: Path) -> None:
    async with supervised(tmp_path) as worker:
        pid = await _pid(worker)
        hanging = asyncio.create_task(worker.ask({**ASK, "text": "hang"}))
        await asyncio.sleep(0.05)
        await asyncio.gather(worker.stop(), worker.stop())
        with pytest.raises(EngineError):
            await hanging
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)  # ended, and taken away
