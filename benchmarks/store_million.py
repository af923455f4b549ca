"""A store of a million records: built through the store itself, then looked at from fresh processes, as a daemon that starts would."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from random import Random

from benchmarks.store_conversations import sentence, short_session
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.records import Inference, JSONObject, Report, new_id

TURNS = 100
SCENARIOS = ("default", "pi", "opencode")
_IN_FLIGHT = 256
_LOOKS = 200


def build(path: Path, records: int) -> JSONObject:
    """Sessions of 100 turns in three scenarios, eight at a time, a report on every fiftieth turn. Says how long it took."""
    store = Store.open(path)
    pending: deque[Future[int]] = deque()
    started = said = time.perf_counter()
    for number, item in enumerate(_items(records), 1):
        pending.append(store.append(item))
        if number % 50 == 0:
            pending.append(store.append_report(Report(new_id("rep"), item.scenario, time.time(), (item.id,), 1.0, f"good {number}")))
        while len(pending) > _IN_FLIGHT:
            pending.popleft().result()
        if time.perf_counter() - said > 10:
            said = time.perf_counter()
            print(f"{number:,} of {records:,} records, {number / (said - started):,.0f} a second", file=sys.stderr, flush=True)
    for future in pending:
        future.result()
    written_s = time.perf_counter() - started
    caught_up = store.catch_up(timeout_s=900)
    indexed_s = time.perf_counter() - started - written_s
    store.close()
    return {"records": records, "written_s": written_s, "indexed_after_s": indexed_s, "caught_up": caught_up}


def _items(records: int) -> Iterator[Inference]:
    random = Random(7)
    sessions = 0
    running: list[Iterator[Inference]] = []
    for _ in range(records):
        while True:
            if len(running) < 8:
                sessions += 1
                running.append(short_session(f"session-{sessions}", SCENARIOS[sessions % 3], TURNS, Random(sessions)))
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
    listed = [_ms(lambda place=place: reader.sessions(place[0], 50, place[1])) for place in places]  # type: ignore[misc]
    ids = [(scenario, found[0].id) for scenario, before in places if (found := reader.sessions(scenario, 1, before))]
    shown = [_ms(lambda place=place: reader.session(place[1], place[0])) for place in ids]  # type: ignore[misc]
    searched = [_ms(lambda one=one: reader.sessions(random.choice(SCENARIOS), 50, q=one)) for one in _queries(random)]  # type: ignore[misc]
    found = sum(bool(reader.sessions("default", 1, q=one)) for one in _queries(Random(5)))
    store.close()
    reader.close()
    return {
        "opened_s": opened_s, "default_sessions": count, "list_ms": _quantiles(listed), "session_ms": _quantiles(shown),
        "search_ms": _quantiles(searched), "queries_that_find": found / _LOOKS, "resident_mb": _resident_mb(), "imports_mb": import_mb,
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


def _ms(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3


def _quantiles(values: list[float]) -> JSONObject:
    values = sorted(values)
    return {"p50": values[len(values) // 2], "p95": values[int(len(values) * 0.95)], "max": values[-1]}


def _resident_mb() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--look", type=Path, required=True)
    print(json.dumps(look(parser.parse_args().look)))
