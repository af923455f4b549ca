"""What breaks, hangs or is ended in a run breaks nothing else, and every run ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from daemon.errors import Conflict, StorageError
from daemon.experience.runs import RunStatus
from daemon.marked import RUN_MARK, marked, run_mark
from tests.daemon.running import running
from tests.evolution import own_recipes
from tests.evolution.run_bench import bench


async def test_a_home_without_room_for_a_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as b:
        b.services.home.runs.parent.mkdir(parents=True, exist_ok=True)
        b.services.home.runs.write_text("in the way")
        with pytest.raises(StorageError, match="Cannot make"):
            await b.runner.start("default", recipe=own_recipes.path_of("Nothing"))
        b.services.home.runs.unlink()
        run, _ = await b.run("Nothing")
        assert run.status is RunStatus.DONE

        def full(*_: object) -> None:
            raise StorageError("The disk is full.")

        monkeypatch.setattr(b.services.repository, "checkout_lora_folder", full)
        with pytest.raises(StorageError, match="full"):
            await b.runner.start("default", recipe=own_recipes.path_of("Nothing"))
        assert [folder.name for folder in b.services.home.runs.iterdir()] == [run.id], "what could not start must take no room"


async def test_a_recipe_that_breaks_fails_its_run_with_a_sentence(tmp_path: Path) -> None:
    sentences = {
        "Raises": "The recipe own failed in propose: ValueError: the third layer is upside down",
        "Strays": "The recipe own changes the harness, which is not its target.",
        "Exits": "The run process ended with exit code 7.",
        "Five": "The recipe own returned a int from propose.",
        "Selects": "The recipe own returned a _WholeStream from select.",
        "Gates": "The recipe own returned a str from gate.",
        "Surrogate": "The recipe own failed in propose: UnicodeEncodeError: 'utf-8' codec can't encode character '\\ud800' in position 0: "
        "surrogates not allowed",
        "Folder": "The recipe own failed in propose: TypeError: lora_folder must be a Path, not str",
        "Numbers": "The recipe own failed in propose: TypeError: records[…] must be a text, not int",
        "own_recipes_for_runs:Missing": "own_recipes_for_runs has no recipe class 'Missing'.",
    }
    async with bench(tmp_path) as b:
        for recipe, sentence in sentences.items():
            run, events = await b.run(recipe)
            assert (run.status, run.sentence) == (RunStatus.FAILED, sentence)
            assert events[-1]["type"] == "ended"
            assert b.head == "r1"
        again, _ = await b.run("Prints")  # what it prints does not disturb its messages
        assert again.verdict == "promoted"


async def test_a_run_can_be_cancelled_and_only_one_runs(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        started = await b.runner.start("default", recipe=own_recipes.path_of("Hangs"))
        with pytest.raises(Conflict, match=started.id):
            await b.runner.start("default", recipe=own_recipes.path_of("Better"))
        while not any(event["type"] == "note" for event in b.events(started.id)):
            await b.runner.wait_event(started.id, 1.0)
        folder = b.services.home.runs / started.id
        token = (folder / "token").read_text()
        caller = b.services.tokens.identify(token)
        assert caller is not None
        assert caller.run_id == started.id
        assert (folder / "token").stat().st_mode & 0o077 == 0
        assert token not in (folder / "job.json").read_text()
        run = await b.runner.cancel(started.id)
        assert run.status is RunStatus.CANCELLED
        assert b.services.tokens.identify(token) is None  # it dies with its run
        assert not (folder / "token").exists()
        assert b.runner.active is None
        with pytest.raises(Conflict, match="already ended"):
            await b.runner.cancel(started.id)
        after, _ = await b.run("Better")
        assert after.verdict == "promoted"


async def test_a_run_that_is_cancelled_at_once_twice_or_whose_folder_cannot_be_tidied_still_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that never ends blocks all others for as long as the daemon lives."""
    async with bench(tmp_path) as b:
        started = await b.runner.start("default", recipe=own_recipes.path_of("Hangs"))
        run = await b.runner.cancel(started.id)  # its task has not taken a step yet
        assert run.status is RunStatus.CANCELLED
        assert b.runner.active is None

        started = await b.runner.start("default", recipe=own_recipes.path_of("Hangs"))
        while not any(event["type"] == "note" for event in b.events(started.id)):
            await b.runner.wait_event(started.id, 1.0)
        process = next(one for one in psutil.Process().children() if any(started.id in part for part in one.cmdline()))
        cancelling = []
        for _ in range(20):  # somebody who presses the key again and again, while it is being ended
            cancelling.append(asyncio.create_task(b.runner.cancel(started.id)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*cancelling, return_exceptions=True)
        assert b.services.runs.get(started.id).status is RunStatus.CANCELLED
        assert b.runner.active is None
        assert not process.is_running()

        def refuse(folder: Path) -> None:
            raise PermissionError(13, "Permission denied", str(folder))

        monkeypatch.setattr("daemon.evolution.run_folder.tidy", refuse)
        run, _ = await b.run("Nothing")
        assert run.status is RunStatus.DONE
        assert b.runner.active is None


async def test_a_run_that_holds_the_interpreter_or_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.evolution.supervision._EVALUATION_MINUTES", -29.95)  # half an hour of training less that: three seconds
    async with bench(tmp_path) as b:
        run, _ = await b.run("Hangs")
        assert run.status is RunStatus.FAILED
        assert run.sentence.startswith("The run took longer than")
    monkeypatch.undo()
    monkeypatch.setattr("daemon.evolution.supervision.PULSE_LIMIT_S", 2.0)
    async with bench(tmp_path / "second") as b:
        run, _ = await b.run("Hangs")
        assert run.sentence.startswith("The run process has hung")


async def test_what_a_run_has_started_ends_with_it(tmp_path: Path) -> None:
    """A checker's command and a trainer have sessions of their own."""
    async with bench(tmp_path) as b:
        started = await b.runner.start("default", recipe=own_recipes.path_of("Starts"))
        while not (notes := [event for event in b.events(started.id) if event["type"] == "note"]):
            await b.runner.wait_event(started.id, 1.0)
        process = psutil.Process(int(str(notes[0]["text"])))
        assert process.cmdline() == ["sleep", "61"]
        await b.runner.cancel(started.id)
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def test_a_run_whose_result_is_there_waits_for_nothing_that_its_recipe_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that got away by two forks holds the run's stdout open; a thread keeps the interpreter from ending."""
    monkeypatch.setattr("daemon.evolution.supervision._ENDING_S", 1.0)
    async with bench(tmp_path) as b:
        for recipe in ("Forks", "Threads"):
            run, _ = await asyncio.wait_for(b.run(recipe), 30)
            assert run.status is RunStatus.DONE, run
            assert not marked(RUN_MARK, run_mark(b.services.home.runs / run.id))


async def test_what_a_run_left_behind_ends_when_the_next_daemon_starts(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        started = await asyncio.wrap_future(b.services.runs.create("default", "own", trigger="owner", config={}))
        folder = b.services.home.runs / started.id
        orphan = psutil.Popen(["sleep", "62"], env={RUN_MARK: run_mark(folder)}, start_new_session=True)
        restored_elsewhere = psutil.Popen(
            ["sleep", "62"], env={RUN_MARK: run_mark(tmp_path / "other" / started.id)}, start_new_session=True
        )
    async with running(tmp_path / "home"):
        assert not orphan.is_running()
        assert restored_elsewhere.is_running(), "a run of the same id in another home must go on"
    restored_elsewhere.kill()
    restored_elsewhere.wait()


async def test_the_trainer_stands_still_while_requests_are_served(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        started = await b.runner.start("default", recipe=own_recipes.path_of("Trains"))
        while not (found := [event for event in b.events(started.id) if event["type"] == "trainer"]):
            await b.runner.wait_event(started.id, 1.0)
        trainer = psutil.Process(int(str(found[0]["pid"])))
        activity = b.services.serving.activity

        async def becomes(stopped: bool) -> None:
            async with asyncio.timeout(5):
                while (trainer.status() == psutil.STATUS_STOPPED) is not stopped:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        activity.begin("default")
        await becomes(True)
        activity.end("default")
        activity.begin("default")  # the next request of the same agent, at once
        await asyncio.sleep(0.4)
        assert trainer.status() == psutil.STATUS_STOPPED
        activity.end("default")
        await becomes(False)
        activity.begin("default")
        await becomes(True)
        await b.runner.cancel(started.id)  # a stopped trainer is ended too
        activity.end("default")
        assert not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE
