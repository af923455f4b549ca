"""Four clients for some minutes: streams, tools, structure, conversations, hang-ups, LoRAs that change, and the worker killed once.

Every reply is complete, save those that the kill cut off, which say so; no record is lost; on the base model the same question has the same
answer to the end, whatever ran beside it and whichever LoRA held its place before; and no process grows.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.faults.scene import add_lora_release
from tests.e2e.reef_home import ReefHome
from tests.e2e.soak_client import Client, Seen

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1500)]

CLIENTS = 4
REQUESTS = 240  # in all
LIMIT_S = 900.0  # no request begins later; two idle cores take about one minute
SWAP_EVERY = 20  # requests
GROWTH = 1.15
RESTART_S = 30.0  # what the kill may have touched began before it, or while there was no worker
CONFIG = "server: {port: 0}\nlearn: {mode: manual}\nengine: {context: 2048, streams: 4}\n"
LORA_SEED = 3  # of a LoRA that answers the question otherwise
WORKER = "daemon.engine.llama.worker"


class Harbour:
    """The daemon, its clients, and what is done to it meanwhile."""

    def __init__(self, reef: ReefHome, releases: dict[str, str]) -> None:
        self.reef = reef
        self._releases = releases
        self.seen = Seen()
        self.killed_at = 0.0
        self.sizes: dict[str, list[int]] = {"daemon": [], "worker": []}  # since the new worker has answered for a while
        self._clients = [Client(reef, number, self.seen, releases) for number in range(CLIENTS)]
        self._deadline = time.monotonic() + LIMIT_S
        self._left = iter(range(REQUESTS))
        self._taking = threading.Lock()

    def run(self) -> None:
        threads = [threading.Thread(target=self._serve, args=(client,), daemon=True) for client in self._clients]
        for thread in threads:
            thread.start()
        swaps = itertools.cycle(("base", "LoRA"))
        next_swap = SWAP_EVERY
        while any(thread.is_alive() for thread in threads):
            if self.seen.done >= next_swap:
                next_swap += SWAP_EVERY
                self._roll_back_to(self._releases[next(swaps)])
            if not self.killed_at and self.seen.done >= REQUESTS // 3:
                (worker,) = self.reef.children(WORKER)
                self.killed_at = time.monotonic()
                worker.kill()
            if self.seen.done >= REQUESTS // 2:
                self._measure()
            time.sleep(0.25)
        self._measure()

    def _serve(self, client: Client) -> None:
        while time.monotonic() < self._deadline:
            with self._taking:
                if next(self._left, None) is None:
                    return
            client.request()

    def _roll_back_to(self, release: str) -> None:
        answer = self.reef.request("POST", "/reef/scenarios/default/rollback", {"release_id": release})
        assert answer.status_code in (200, 409), answer.text  # 409: it is what serves already

    def _measure(self) -> None:
        self.sizes["daemon"].append(psutil.Process(self.reef.pid).memory_info().rss)
        self.sizes["worker"] += [worker.memory_info().rss for worker in self.reef.children(WORKER)]

    def unexplained(self) -> list[str]:
        """Failures that the kill does not explain: their requests were not under way at it."""
        return [what for began, ended, what in self.seen.failures if not began < self.killed_at + RESTART_S or ended < self.killed_at]


@pytest.fixture
def harbour(tmp_path: Path) -> Iterator[Harbour]:
    with ReefHome(tmp_path / "home", CONFIG) as reef:
        reef.start()
        base = reef.head()
        reef.stop()
        lora = add_lora_release(reef, LORA_SEED)
        reef.start()
        yield Harbour(reef, {"base": base, "LoRA": lora})


def _lost(reef: ReefHome, receipts: list[str]) -> list[str]:
    return [receipt for receipt in receipts if reef.request("GET", f"/reef/scenarios/default/records/{receipt}").status_code != 200]


def test_four_clients_are_served_to_the_end(harbour: Harbour) -> None:
    harbour.run()
    seen, reef = harbour.seen, harbour.reef
    assert seen.done == REQUESTS, f"{seen.done} of {REQUESTS} requests were answered in time"
    assert not harbour.unexplained(), harbour.unexplained()
    assert len(seen.failures) <= CLIENTS, seen.failures
    assert all("error event" in what or "503" in what or "502" in what for _, _, what in seen.failures), seen.failures
    assert len(seen.answers["base"]) == 1, f"on the base model the same question had {len(seen.answers['base'])} answers"
    assert seen.answers["LoRA"].isdisjoint(seen.answers["base"])
    assert not _lost(reef, seen.receipts)
    deadline = time.monotonic() + 10
    while (lost := _lost(reef, seen.hung_up)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not lost, f"of {len(seen.hung_up)} streams that were hung up on, {len(lost)} left no record"
    for name, sizes in harbour.sizes.items():
        assert max(sizes[-3:]) <= GROWTH * max(sizes[:3]), (
            f"the {name} grew: {[size >> 20 for size in sizes[:: max(1, len(sizes) // 8)]]} MiB"
        )
    status = reef.get("/reef/status")
    assert status["engine"]["active"] == 0, status["engine"]
    checked = reef.fsck()
    assert checked.returncode == 0, checked.stdout + checked.stderr
