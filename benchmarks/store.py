"""The experience store against a bare one with the same promise: how fast it writes, how little it takes, and a million records.

    .venv/bin/python -m benchmarks.store [--only ROW] [--quick] [--records N] [--folder DIR] [--json]

The bare store is one table, one row of JSON a record, with the same writer thread, WAL and synchronous=FULL. Both sides of a row run
in turns in one process, and medians of the ratios are compared. A million records take about five minutes to build on two idle cores;
`--quick` builds a tenth. Prints a table in Markdown. Exit code 1 if a figure that is to be reached is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import cast

from benchmarks.engine import markdown
from benchmarks.engine_tools import Row
from benchmarks.store_conversations import agent_session, unique_bytes
from benchmarks.store_million import build, look_in_new_process
from daemon.experience.jobs import Items
from daemon.experience.search.file import index_path
from daemon.experience.store import Store
from daemon.experience.writer import Writer
from daemon.records import Inference, JSONObject

_ROUNDS = 5
_LOOP_WORK_S = 0.0003  # what an event loop does beside a record: the writer must share the interpreter with it


@dataclass(frozen=True)
class Options:
    quick: bool
    records: int
    folder: Path


class _Bare(Items[Inference]):
    """One table, one row of JSON a record."""

    def write(self, connection: sqlite3.Connection, items: Sequence[Inference]) -> list[int]:
        return [self.write_one(connection, item) for item in items]

    def write_one(self, connection: sqlite3.Connection, item: Inference) -> int:
        body = json.dumps({"messages": item.messages, "reply": item.reply, "request": item.request})
        return connection.execute("INSERT INTO records VALUES (?, ?)", (item.id, body)).lastrowid or 0

    def undone(self) -> None:
        pass

    def committed(self) -> None:
        pass


def _bare_writer(path: Path) -> tuple[sqlite3.Connection, Writer[Inference]]:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE records (id TEXT PRIMARY KEY, body TEXT)")
    return connection, Writer(connection, _Bare())


async def _rate(append: Callable[[Inference], Future[int]], items: list[Inference], in_flight: int) -> float:
    """Records a second with so many receipts awaited at any time, on an event loop that has something to do for each."""
    waiting = iter(items)

    async def client() -> None:
        for item in waiting:
            until = time.perf_counter() + _LOOP_WORK_S
            while time.perf_counter() < until:
                pass
            await asyncio.wrap_future(append(item))

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(in_flight)))
    return len(items) / (time.perf_counter() - started)


def writing(options: Options) -> list[Row]:
    """Records of agents at work, 8 KB of tools and a growing history each, on both stores in turns."""
    path = options.folder / "writing.db"
    store = Store.open(path)
    connection, writer = _bare_writer(options.folder / "bare.db")
    rows = []
    number = 0
    for in_flight in (1, 32):
        here, there = [], []
        for _ in range(2 if options.quick else _ROUNDS):
            items = []
            for _ in range(40):
                number += 1
                items.append(list(agent_session(f"writing-{number}", 10, number)))
            batch = [item for turn in zip(*items, strict=True) for item in turn]
            here.append(asyncio.run(_rate(store.append, batch, in_flight)))
            there.append(asyncio.run(_rate(writer.add, batch, in_flight)))
        ratio = median(one / other for one, other in zip(here, there, strict=True))
        rows.append(
            Row(
                f"records written beside an event loop, {in_flight} in flight",
                "the bare store",
                f"{median(here):.0f}/s",
                f"{median(there):.0f}/s",
                f"{ratio:.2f}",
                figures={"here": list(here), "there": list(there), "ratio": ratio},
            )
        )
    writer.close()
    connection.close()
    store.close()
    return rows


def size(options: Options) -> list[Row]:
    """What ten sessions of 100 turns add to the database's file, against the bytes of what they say."""
    rows = []
    plain_bytes = 0
    for tokens in (False, True):
        path = options.folder / f"size-{tokens}.db"
        Store.open(path).close()
        empty = path.stat().st_size
        store = Store.open(path)
        unique = resent = 0
        for number in range(2 if options.quick else 10):
            items = list(agent_session(f"size-{number}", 100, number, tokens=tokens))
            unique += unique_bytes(items)
            resent += sum(len(json.dumps([*item.messages, item.reply])) for item in items)
            for future in [store.append(item) for item in items]:
                future.result()
        store.catch_up(60)
        store.close()
        added = path.stat().st_size - empty
        if not tokens:
            ratio = added / unique
            plain_bytes = added
            rows.append(
                Row(
                    "bytes on disk of a 100-turn agent session, its history resent with each turn",
                    "bytes of its unique content",
                    f"{added / 1024:,.0f} KiB",
                    f"{unique / 1024:,.0f} KiB",
                    f"{ratio:.2f}",
                    "≤ 0.60",
                    ratio <= 0.6,
                    {"added": added, "unique": unique, "empty": empty, "resent": resent, "ratio": ratio},
                )
            )
            index = index_path(path).stat().st_size
            rows.append(
                Row("its full-text index", "the same", f"{index / 1024:,.0f} KiB", "", f"{index / unique:.2f}", figures={"index": index})
            )
        else:
            rows.append(
                Row(
                    "its token ids and log-probabilities (random ones, which nothing compresses)",
                    "the same",
                    f"{(added - plain_bytes) / 1024:,.0f} KiB",
                    "",
                    f"{(added - plain_bytes) / unique:.2f}",
                    figures={"added": added - plain_bytes},
                )
            )
    return rows


def million(options: Options) -> list[Row]:
    """Built through the store, then looked at from new processes: after a clean stop, and after one that was killed."""
    records = options.records // (10 if options.quick else 1)
    path = options.folder / "million.db"
    built = build(path, records)
    clean = look_in_new_process(path, unclean=False)
    killed = look_in_new_process(path, unclean=True)
    name = f"{records:,} records"
    figures: JSONObject = {
        "built": built,
        "clean": clean,
        "killed": killed,
        "bytes": path.stat().st_size,
        "index": index_path(path).stat().st_size,
    }
    print(json.dumps(figures), file=sys.stderr)
    rows = []
    for key, what in (
        ("list_ms", "a page of 50 of the session list"),
        ("session_ms", "one session of 100 turns"),
        ("search_ms", "a search"),
    ):
        times = cast(dict[str, float], clean[key])
        rows.append(
            Row(
                f"{name}: {what}",
                "-",
                f"p50 {times['p50']:.1f} ms, p95 {times['p95']:.1f} ms",
                "",
                f"{times['p95']:.1f} ms",
                "p95 ≤ 50 ms",
                times["p95"] <= 50,
            )
        )
    opened = cast(float, clean["opened_s"])
    rows.append(Row(f"{name}: start after a clean stop", "-", f"{opened:.2f} s", "", f"{opened:.2f} s", "≤ 1 s", opened <= 1))
    rows.append(Row(f"{name}: start after a kill", "-", f"{killed['opened_s']:.2f} s", "", "", figures=figures))
    memory = cast(float, clean["resident_mb"])
    rows.append(
        Row(f"{name}: memory of a process after 800 queries", "-", f"{memory:.0f} MiB", "", f"{memory:.0f} MiB", "≤ 200 MiB", memory <= 200)
    )
    rows.append(
        Row(
            f"{name}: the database, its index beside it",
            "-",
            f"{path.stat().st_size / 2**20:,.0f} MiB and {index_path(path).stat().st_size / 2**20:,.0f} MiB",
            "",
            f"{built['written_s']:.0f} s to write, {built['indexed_after_s']:.0f} s more to index",
        )
    )
    return rows


ROWS: dict[str, Callable[[Options], list[Row]]] = {"writing": writing, "size": size, "million": million}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(ROWS), help="only these; may be given several times")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and records, for a look")
    parser.add_argument("--records", type=int, default=1_000_000, help="of the row `million`")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object with all figures")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for name in arguments.only or list(ROWS):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            began = time.monotonic()
            rows += ROWS[name](Options(arguments.quick, arguments.records, Path(folder)))
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    held = all(row.held is not False for row in rows)
    print(
        json.dumps({"rows": [asdict(row) for row in rows], "held": held}, indent=2, ensure_ascii=False)
        if arguments.json
        else markdown(rows)
    )
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
