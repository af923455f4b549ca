"""`kill -9` of the daemon under load, and of each of its children during their work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.e2e.faults.scene import check_promises, quick_recipes
from tests.e2e.reef_home import ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

WORKER, RUN, TRAINER = "daemon.engine.llama.worker", "daemon.evolution.run_process", "daemon.training.trainer"
DAEMON_KILLS = 5


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what the test waits for did not happen")
        time.sleep(0.02)


class Traffic:
    """Clients that ask and report without pause, and keep every receipt that they were given."""

    def __init__(self, reef: ReefHome, clients: int = 3) -> None:
        self.receipts: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(reef, number), daemon=True) for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _ask(self, reef: ReefHome, client: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                self.receipts.append(reef.ask(f"Client {client} asks question {number}.", max_tokens=6).receipt)
            except (httpx.HTTPError, RuntimeError):
                return  # the daemon is gone; what it promised before is what counts


def test_the_daemon_killed_under_load_loses_no_receipt(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        receipts: list[str] = []
        reef.start()
        for kill in range(DAEMON_KILLS):
            worker = reef.children(WORKER)
            traffic = Traffic(reef)
            until(lambda traffic=traffic: len(traffic.receipts) >= 4)  # type: ignore[misc]
            time.sleep(0.13 * kill)
            reef.kill()
            traffic.end()
            receipts += traffic.receipts
            until(lambda worker=worker: not any(process.is_running() for process in worker), 10)  # type: ignore[misc]
            reef.start()  # and the next kill hits a daemon that itself began after one
            check_promises(reef, receipts[-40:], {"r1"})
        reef.stop()
        reef.start()
        check_promises(reef, receipts, {"r1"})


def test_the_engine_killed_in_mid_reply_comes_back(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        reef.start()
        before = reef.ask("Tell me about mountains.", max_tokens=24)
        for _ in range(2):
            [worker] = reef.children(WORKER)
            body = {
                "model": reef.model,
                "stream": True,
                "max_tokens": 300,
                "messages": [{"role": "user", "content": "Write a long story."}],
            }
            headers = {"authorization": f"Bearer {reef.token('client')}"}
            with reef.http.stream("POST", f"{reef.url}/v1/chat/completions", json=body, headers=headers) as stream:
                lines = stream.iter_lines()
                for _ in range(6):
                    next(lines)
                worker.kill()
                rest = "\n".join(lines)
            assert "error" in rest, "a client must be told that its reply is not whole"
            until(lambda worker=worker: [process.pid for process in reef.children(WORKER)] not in ([], [worker.pid]))  # type: ignore[misc]
            until(lambda: reef.request("GET", "/v1/models").status_code == 200)
            assert reef.ask("Tell me about mountains.", max_tokens=24).text == before.text
        check_promises(reef, [before.receipt], {"r1"})


def test_a_killed_run_fails_with_a_sentence_and_the_next_one_works(tmp_path: Path) -> None:
    slow = quick_recipes(tmp_path / "mine", "Slow")
    with ReefHome(tmp_path / "home") as reef:
        reef.start("-c", str(slow))
        receipt = reef.ask("Anything.").receipt
        for _ in range(2):
            run = reef.start_run()
            until(lambda: reef.children(RUN))
            time.sleep(1)
            reef.children(RUN)[0].kill()
            ended = reef.wait_run(run, seconds=30)
            assert ended["status"] == "failed" and ended["error"], ended
            assert reef.ask("Still there?").release == "r1"
        quick = reef.run("fault_recipes:Quick")
        assert quick["verdict"] == "promoted", quick
        check_promises(reef, [receipt], {str(quick["release_id"])})


def test_a_killed_daemon_takes_its_run_with_it(tmp_path: Path) -> None:
    slow = quick_recipes(tmp_path / "mine", "Slow")
    with ReefHome(tmp_path / "home") as reef:
        reef.start("-c", str(slow))
        receipt = reef.ask("Anything.").receipt
        run = reef.start_run()
        until(lambda: reef.children(RUN))
        [process] = reef.children(RUN)
        reef.kill()
        until(lambda: not process.is_running(), 15)
        reef.start("-c", str(slow))
        ended = reef.wait_run(run, seconds=10)
        assert ended["status"] == "failed" and ended["error"], ended
        check_promises(reef, [receipt], {"r1"})


def test_a_killed_trainer_fails_its_run_and_serving_goes_on(tmp_path: Path) -> None:
    # Without replay, which the engine writes before the trainer starts.
    settings = "reef: {recipe: sft, batch_size: 1, replay_per_step: 0}\n"
    with ReefHome(tmp_path / "home", f"server: {{port: 0}}\nlearn: {{mode: manual}}\n{settings}") as reef:
        reef.start()
        asked = [reef.ask(f"Write a commit message for change {number}.") for number in range(2)]
        for number, answer in enumerate(asked):
            report = {"references": [answer.receipt], "feedback": {"correction": f"fix(core): correct change {number}"}}
            assert reef.request("POST", "/reef/report", report, who="client").status_code == 200
        run = reef.start_run()
        until(lambda: reef.children(TRAINER), 120)
        reef.children(TRAINER)[0].kill()
        ended = reef.wait_run(run, seconds=60)
        assert ended["status"] == "failed" and ended["error"], ended
        check_promises(reef, [answer.receipt for answer in asked], {"r1"})


def test_two_daemons_started_at_once_the_second_says_who_runs(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        reef.start()
        second = reef.cli("serve")
        assert second.returncode == 1
        assert str(reef.pid) in second.stderr and "Traceback" not in second.stderr
        assert reef.ask("Still there?").release == "r1"
