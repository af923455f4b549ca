"""A store of a million records: built through the store itself, then looked at from fresh processes, as a daemon that starts would."""

from __future__ import annotations

import argparse
import itertools
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.store_conversations import sentence, short_session
from daemon.experience.reader import Reader
from daemon.experience.rows import Rows
from daemon.experience.store import Store
from daemon.records import Inference, JSONObject, Report, new_id

TURNS = 100
SCENARIOS = ("default", "pi", "opencode")
_BATCH = 500
_LOOKS = 200


def build(path: Path, records: int) -> JSONObject:
    """Sessions in three scenarios, a report on every five hundredth turn. Says how long it took.

    The rows are written by what writes them in the daemon, 500 records to a commit and without waiting for the disk; then the
    store takes over and makes its index.
    """
    Store.open(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    rows = Rows()
    started = said = time.perf_counter()
    done = 0
    items = _items(records)
    while batch := list(itertools.islice(items, _BATCH)):
        connection.execute("BEGIN")
        rows.inferences(connection, batch)
        connection.execute("COMMIT")
        done += len(batch)
        if time.perf_counter() - said > 10:
            said = time.perf_counter()
            print(f"{done:,} of {records:,} records, {done / (said - started):,.0f} a second", file=sys.stderr, flush=True)
    connection.close()
    written_s = time.perf_counter() - started
    store = Store.open(path)
    reader = Reader(path)
    for summary in reader.sessions(None, records // 500):
        store.append_report(Report(new_id("rep"), summary.scenario, time.time(), (summary.last_receipt,), 1.0, f"good {summary.id}"))
    reader.close()
    indexed = 0.0
    while not store.catch_up(timeout_s=10):
        indexed = time.perf_counter() - started - written_s
        print(f"{store.index_lag:,} records to index after {indexed:.0f} s", file=sys.stderr, flush=True)
    indexed = time.perf_counter() - started - written_s
    store.close()
    return {"records": records, "written_s": written_s, "indexed_after_s": indexed}


def _items(records: int) -> Iterator[Inference]:
    """Eight sessions at a time, one of 100 turns to 39 of ten: a fifth of the records belong to long ones."""
    random = Random(7)
    sessions = 0
    running: list[Iterator[Inference]] = []
    for _ in range(records):
        while True:
            if len(running) < 8:
                sessions += 1
                name, turns = (f"long-{sessions}", TURNS) if sessions % 40 == 0 else (f"short-{sessions}", 10)
                running.append(short_session(name, SCENARIOS[sessions % 3], turns, Random(sessions)))
            place = random.randrange(len(running))
            item = next(running[place], None)
            if item is not None:
                break
            running.pop(place)
        yield item


def look(path: Path) -> JSONObject:
    """In this process: open the store, then list, show and search. Times in ms, memory in MiB."""
    import_mb = _resident_mb()
    started = time.perf_counter()
    store = Store.open(path)
    opened_s = time.perf_counter() - started
    reader = Reader(path)
    random = Random(11)
    newest = [reader.sessions(scenario, limit=1)[0].last_sequence for scenario in SCENARIOS]
    count = reader.counts("default").sessions
    places = [(random.choice(SCENARIOS), random.randrange(1, max(newest))) for _ in range(_LOOKS)]
    listed = _measured(partial(reader.sessions, scenario, 50, before) for scenario, before in places)
    long = [one for before in sorted({before for _, before in places}) for one in reader.sessions(None, 40, before) if one.turns == TURNS]
    ids = [(one.scenario, one.id) for one in random.sample(long, min(_LOOKS, len(long)))]
    shown = _measured(partial(reader.session, session, scenario) for scenario, session in ids)
    searched = _measured(partial(reader.sessions, random.choice(SCENARIOS), 50, None, one) for one in _queries(random))
    found = sum(bool(reader.sessions("default", 1, q=one)) for one in _queries(Random(5)))
    store.close()
    reader.close()
    return {
        "opened_s": opened_s, "default_sessions": count, "list_ms": listed, "session_ms": shown,
        "search_ms": searched, "queries_that_find": found / _LOOKS, "resident_mb": _resident_mb(), "imports_mb": import_mb,
    }  # fmt: skip


def look_in_new_process(path: Path, *, unclean: bool) -> JSONObject:
    """`look` in a process of its own; `unclean`: after a store that was killed."""
    if unclean:
        code = "import os, sys, pathlib; from daemon.experience.store import Store; Store.open(pathlib.Path(sys.argv[1])); os._exit(9)"
        subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=600)
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.store_million", "--look", str(path)], check=True, timeout=600, stdout=subprocess.PIPE
    )
    found: JSONObject = json.loads(answer.stdout)
    return found


def _queries(random: Random) -> Iterator[str]:
    """Words that are everywhere, names that are rare, two words, phrases."""
    for number in range(_LOOKS):
        words = [word for word in sentence(random).split() if word.isalpha()] or ["name"]
        yield (
            words[0],
            f"file_{random.randrange(5000)}.py",
            f"{words[0]} {words[-1]}",
            f'"{" ".join(sentence(random).split()[2:4])}"',
        )[number % 4]


def _measured(calls: Iterable[Callable[[], object]]) -> JSONObject:
    """Milliseconds of each call, and of the processor's time alone."""
    walls, processor = [], []
    for call in calls:
        started, worked = time.perf_counter(), time.thread_time()
        call()
        walls.append((time.perf_counter() - started) * 1e3)
        processor.append((time.thread_time() - worked) * 1e3)
    walls.sort()
    processor.sort()
    middle, last = len(walls) // 2, int(len(walls) * 0.95)
    return {
        "p50": walls[middle],
        "p95": walls[last],
        "max": walls[-1],
        "processor_p50": processor[middle],
        "processor_p95": processor[last],
    }


def _resident_mb() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--look", type=Path, required=True)
    print(json.dumps(look(parser.parse_args().look)))
