"""`kill -9` at every named instant of taking up a record: no receipt that a client has seen is lost, and no record is torn."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from daemon.failpoints import ADMISSION_FAILPOINTS, FILING_FAILPOINTS
from tests.e2e.faults.upstream import home_over, upstream
from tests.e2e.reef_home import ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CLIENTS = 4
POINTS = (*ADMISSION_FAILPOINTS, *FILING_FAILPOINTS)


class Clients:
    """Ask without pause, streamed and not, until the daemon is gone; keep every receipt that they were given.

    Each looks the record up that it has a receipt for, now and then: then what the journal holds is brought into the tables.
    """

    def __init__(self, reef: ReefHome, first: int) -> None:
        self.receipts: dict[str, str] = {}  # → what was asked
        self.unseen: list[str] = []  # what was said of a record that is not there although it has a receipt
        self.asked = 0
        self._reef = reef
        self._numbers = iter(range(first, first + 100_000))
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask, args=(number % 2 == 0,), daemon=True) for number in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a client waits for a daemon that is gone"
        assert not self.unseen

    def _ask(self, stream: bool) -> None:
        with httpx.Client(trust_env=False, timeout=30) as http:
            while True:
                with self._lock:
                    self.asked += 1
                    text = f"question {next(self._numbers)} of many"
                try:
                    receipt = self._streamed(http, text) if stream else self._whole(http, text)
                    if receipt:
                        self.receipts[receipt] = text
                        if self.asked % 3 == 0:
                            self._look(http, receipt)
                except httpx.HTTPError:
                    return

    def _look(self, http: httpx.Client, receipt: str) -> None:
        owner = {"authorization": f"Bearer {self._reef.token('owner')}"}
        answer = http.get(f"{self._reef.url}/reef/scenarios/default/records/{receipt}", headers=owner)
        if answer.status_code != 200:
            self.unseen.append(answer.text)

    def _body(self, text: str, **more: object) -> dict[str, object]:
        return {"model": self._reef.model, "messages": [{"role": "user", "content": text}], **more}

    def _whole(self, http: httpx.Client, text: str) -> str:
        answer = http.post(f"{self._reef.url}/v1/chat/completions", json=self._body(text), headers=self._headers())
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["content"].strip() == text
        return answer.headers["x-reef-agent-record-id"]

    def _streamed(self, http: httpx.Client, text: str) -> str:
        """The receipt counts from the moment at which its event is there, whether the stream ends in order or not."""
        receipt = ""
        url, body = f"{self._reef.url}/v1/chat/completions", self._body(text, stream=True)
        try:
            with http.stream("POST", url, json=body, headers=self._headers()) as answer:
                for line in answer.iter_lines():
                    if '"agent_record_id"' in line:
                        receipt = json.loads(line.removeprefix("data: "))["reef"]["agent_record_id"]
        finally:
            if receipt:
                self.receipts[receipt] = text
        return receipt

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._reef.token('client')}"}


def records(reef: ReefHome) -> Iterator[dict[str, Any]]:
    after = 0
    while page := reef.get(f"/reef/scenarios/default/records?limit=100&after_sequence={after}")["records"]:
        yield from page
        after = page[-1]["sequence"]


def kill_at(reef: ReefHome, point: str, passage: int, first: int) -> tuple[int, dict[str, str]]:
    """Start, let the clients ask until the daemon dies there; how many requests were sent, and the receipts that were given out."""
    reef.start(env={"REEF_FAILPOINT": f"{point}:{passage}"})
    clients = Clients(reef, first)
    assert reef.wait_dead() == -9, f"{point} was not passed"
    clients.end()
    return clients.asked, clients.receipts


def check(reef: ReefHome, receipts: dict[str, str]) -> int:
    """After a start: all receipts lead to what was asked, each record is whole, the store checks out, and it serves; how many there are."""
    found = {one["agent_record_id"]: one["payload"] for one in records(reef)}
    lost = [receipt for receipt in receipts if receipt not in found]
    assert not lost, f"{len(lost)} of {len(receipts)} receipts are lost"
    for receipt, payload in found.items():
        asked = payload["messages"][-1]["content"]
        assert payload["status"] in ("ok", "aborted", "error") and receipts.get(receipt, asked) == asked
        if payload["status"] == "ok":
            assert payload["reply"]["content"].strip() == asked, "a torn record"
    sessions = reef.get("/reef/scenarios/default/sessions?limit=200")["sessions"]
    assert sum(one["turns"] for one in sessions) <= len(found)
    checked = reef.fsck()
    assert checked.returncode == 0, checked.stdout + checked.stderr
    status = reef.get("/reef/status")
    assert status["engine"]["state"] == "ready" and not status["warnings"] and status["in_flight"] == 0
    return len(found)


def test_a_kill_at_each_instant_of_admission_loses_no_receipt(tmp_path: Path) -> None:
    with upstream() as server, home_over(server, tmp_path / "home") as reef:
        receipts: dict[str, str] = {}
        asked = 0
        for number, point in enumerate(POINTS):
            sent, given = kill_at(reef, point, 5 + number, first=1000 * number)
            receipts |= given
            asked += sent
            reef.start()
            stored = check(reef, receipts)
            reef.stop()
            # What was not answered was on its way through: no more than the clients had under way at each kill.
            assert stored <= len(receipts) + CLIENTS * (number + 1)
        assert len(receipts) >= 3 * len(POINTS) and asked <= len(receipts) + 2 * CLIENTS * len(POINTS)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_hundred_and_fifty_kills_at_random_passages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The daemon is started with the next kill armed, so that it also starts after an unclean stop each time."""
    chance = random.Random(1)
    kills = 150
    with upstream() as server, home_over(server, tmp_path / "home") as reef:
        receipts: dict[str, str] = {}
        asked = 0
        for number in range(kills):
            sent, given = kill_at(reef, chance.choice(POINTS), chance.randint(10, 60), first=1000 * number)
            receipts |= given
            asked += sent
            if number % 10 == 9:
                reef.start()
                stored = check(reef, receipts)
                reef.stop()
                with capsys.disabled():
                    print(f"{number + 1} kills, {asked} requests, {len(receipts)} receipts, {stored} records, 0 lost", flush=True)
