"""How fast the experience store writes: one commit a record against group commit, in the same run on the same disk.

Run: python benchmarks/store.py [--folder DIR] [--seconds 4]

The reference is the bare minimum with the same promise: one table, one row of JSON a record, WAL, synchronous=FULL.
"In flight" is how many requests wait for their receipt at any time; 1 is one commit a record.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.experience.writer import Writer
from daemon.records import Inference, Message, TokenTrace, Usage, new_id

_SYSTEM: Message = {"role": "system", "content": "You are a coding agent. " * 80}


def record(session: str, turn: int) -> Inference:
    """A turn of an agent: its history resent, some 200 new tokens."""
    messages: list[Message] = [_SYSTEM]
    for number in range(turn):
        messages.append({"role": "user", "content": f"{session} step {number}: " + "change this and that; " * 10})
        messages.append({"role": "assistant", "content": f"done with step {number}"})
    messages.append({"role": "user", "content": f"{session} step {turn}: " + "change this and that; " * 10})
    tokens = TokenTrace(tuple(range(600 + 100 * turn)), tuple(range(100)), tuple(-0.01 * n for n in range(100)))
    return Inference(
        new_id("rec"), "default", session, time.time(), "r1", None, "model", "chat", tuple(messages), None,
        {"role": "assistant", "content": f"done with step {turn}"}, "stop", tokens=tokens, usage=Usage(600, 100),
    )  # fmt: skip


def rate(append: Callable[[Inference], Future[int]], in_flight: int, seconds: float) -> tuple[float, float]:
    """Records a second with `in_flight` receipts awaited at any time, as an event loop does; and the median wait in ms."""
    run = time.monotonic_ns()
    items = [record(f"{run}-{number // 10}", number % 10) for number in range(int(3000 * seconds))]
    waits: list[float] = []
    pending: deque[tuple[float, Future[int]]] = deque()
    started = now = time.perf_counter()
    for item in items:
        if now - started > seconds:
            break
        pending.append((now, append(item)))
        if len(pending) == in_flight:
            sent, future = pending.popleft()
            future.result()
            waits.append(time.perf_counter() - sent)
        now = time.perf_counter()
    for sent, future in pending:
        future.result()
        waits.append(time.perf_counter() - sent)
    return len(waits) / (time.perf_counter() - started), sorted(waits)[len(waits) // 2] * 1e3


def bare(path: Path) -> tuple[sqlite3.Connection, Writer]:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE records (id TEXT PRIMARY KEY, body TEXT)")
    return connection, Writer(connection, lambda: None)


def bare_append(writer: Writer) -> Callable[[Inference], Future[int]]:
    def append(item: Inference) -> Future[int]:
        body = json.dumps({"messages": item.messages, "reply": item.reply})

        def write(connection: sqlite3.Connection) -> int:
            return connection.execute("INSERT INTO records VALUES (?, ?)", (item.id, body)).lastrowid or 0

        return writer.submit(write)

    return append


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure (default: a temporary one)")
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        store = Store.open(Path(folder) / "experience.db")
        connection, writer = bare(Path(folder) / "bare.db")
        print("in flight  store/s  wait ms   bare/s  wait ms  store/bare  store: group/single")
        single = 0.0
        for in_flight in (1, 8, 32, 128):
            ours, wait = rate(store.append, in_flight, options.seconds)
            theirs, bare_wait = rate(bare_append(writer), in_flight, options.seconds)
            single = single or ours
            print(f"{in_flight:9}  {ours:7.0f}  {wait:7.2f}  {theirs:7.0f}  {bare_wait:7.2f}  {ours / theirs:10.2f}  {ours / single:19.1f}")
        writer.close()
        connection.close()
        reader = Reader(store.path)
        count = reader.counts("default")
        started = time.perf_counter()
        reader.sessions("default", limit=50)
        listed = time.perf_counter() - started
        started = time.perf_counter()
        reader.session(reader.sessions("default", limit=1)[0].id)
        print(f"{count.inferences} records: session list {listed * 1e3:.1f} ms, one session {(time.perf_counter() - started) * 1e3:.1f} ms")
        reader.close()
        store.close()
        print(f"{store.path.stat().st_size / count.inferences:.0f} bytes a record, tokens and log-probabilities included")


if __name__ == "__main__":
    main()
