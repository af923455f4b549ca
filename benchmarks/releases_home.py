"""A home with many releases and sessions, made in bulk: what the daemon writes, without waiting for the disk."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from benchmarks.store_conversations import sentence, short_session
from daemon.experience.reader import Reader
from daemon.experience.rows import Rows
from daemon.experience.store import Store
from daemon.harness_tree import HarnessTree
from daemon.records import JSON, Inference
from daemon.versions.manifest import EvaluationSummary, Operation
from daemon.versions.release import Draft, LoRAFiles
from daemon.versions.repository import Repository
from tests.e2e.faults.scene import lora_folder
from tests.e2e.reef_home import ReefHome

RULES, TASKS, LORA_EVERY = 40, 40, 50
_BATCH = 500


def add_releases(reef: ReefHome, count: int) -> None:
    """Releases on top of the first one: a rule changes in each, every fiftieth has another of two LoRAs for the embedded model."""
    random = Random(3)
    folders = [lora_folder(reef.root.parent / f"lora-{seed}", seed) for seed in (1, 2)]
    repository = Repository(reef.home.versions)
    rules = [sentence(random)[:100] for _ in range(RULES)]
    lora: LoRAFiles | None = None
    told = time.perf_counter()
    try:
        head = repository.head("default")
        if head is None:
            raise RuntimeError("start the daemon once before: it makes the first release")
        with _not_synced():
            for number in range(1, count + 1):
                rules[number % RULES] = f"{sentence(random)[:90]} ({number})"
                draft = Draft(
                    "default", Operation.TRAINING, head.manifest.base, _harness(rules, random), lora=lora, engine=head.manifest.engine,
                    evaluation=_evaluation(random), summary=_summary(random), verdict="promoted: +9 −2", who="benchmark",
                )  # fmt: skip
                if number % LORA_EVERY == 1:
                    draft = replace(draft, lora=None, lora_folder=folders[number // LORA_EVERY % 2])
                head = repository.publish(draft, head.id)
                lora = head.lora
                if time.perf_counter() - told > 10:
                    told = time.perf_counter()
                    print(f"{number:,} of {count:,} releases", file=sys.stderr, flush=True)
    finally:
        repository.close()
        for folder in folders:
            shutil.rmtree(folder)


def add_sessions(path: Path, count: int) -> None:
    """Sessions of two turns, by what writes them in the daemon."""
    Store.open(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    rows, items, done = Rows(), _turns(count), 0
    while batch := list(itertools.islice(items, _BATCH)):
        connection.execute("BEGIN")
        rows.inferences(connection, batch)
        connection.execute("COMMIT")
        done += len(batch)
        if done % (20 * _BATCH) == 0:
            print(f"{done // 2:,} of {count:,} sessions", file=sys.stderr, flush=True)
    connection.close()
    store, reader = Store.open(path), Reader(path)
    while not store.catch_up(timeout_s=10):
        print(f"{store.index_lag:,} records to index", file=sys.stderr, flush=True)
    reader.close()
    store.close()


def _turns(sessions: int) -> Iterator[Inference]:
    for number in range(sessions):
        yield from short_session(f"session-{number}", "default", 2, Random(number))


def _harness(rules: list[str], random: Random) -> HarnessTree:
    skill = f"---\nname: review\n---\n{sentence(random)}\n"
    return HarnessTree({"AGENTS.md": "\n".join(f"- {rule}" for rule in rules) + "\n", "skills/review/SKILL.md": skill})


def _evaluation(random: Random) -> dict[str, JSON]:
    tasks: list[JSON] = [
        {"task": f"t{number}", "before": 0.5, "after": random.random(), "reply": sentence(random)} for number in range(TASKS)
    ]
    return {"held_out": tasks}


def _summary(random: Random) -> EvaluationSummary:
    return EvaluationSummary(held_out_before=0.5, held_out_after=random.random(), tasks=TASKS, wins=9, losses=2, ties=29, p=0.03)


@contextmanager
def _not_synced() -> Iterator[None]:
    """A thousand releases would wait for the disk ten thousand times; what is measured afterwards does not depend on it."""
    before = os.fsync
    os.fsync = lambda _: None
    try:
        yield
    finally:
        os.fsync = before
