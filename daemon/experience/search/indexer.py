"""The thread that keeps the full-text index: it comes after the records, and takes little while they come.

While nothing was written for a moment it works at full speed, and also when somebody searches. Under a steady load it takes a
twentieth of the time, in small steps; a search covers what it has not reached.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from daemon.errors import ReefError
from daemon.experience.database import open_reader, storage_errors
from daemon.experience.search.file import (
    add,
    document,
    fact,
    index_path,
    lost_documents,
    next_documents,
    open_index,
    remove,
    set_fact,
    take_out,
)
from daemon.experience.unfiled import settle

_log = logging.getLogger(__name__)
_IDLE_S = 0.5  # without a commit
_WAIT_S = 10.0  # so long a steady load is left alone
_SHARE = 0.05
_STEP, _STEP_UNDER_LOAD = 256, 16
_RETRY_S = 60.0  # after an error of the disk


class Indexer:
    """Thread-safe. The file is made with the first record that it indexes."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = index_path(database)
        self._lock = threading.Lock()  # of the two connections
        self._index: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._written_at = 0.0
        self._indexed = 0  # the last sequence
        self._wanted = threading.Event()
        self._urgent = threading.Event()
        self._reached = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def lag(self) -> int:
        """Records that are not in the index yet, about."""
        settle(self._database)
        return max(0, self._last_sequence() - self._indexed)

    def start(self) -> None:
        """Begin with what an earlier process has left."""
        self._thread = threading.Thread(target=self._run, name="experience-indexer", daemon=True)
        self._thread.start()
        self._wanted.set()

    def note(self) -> None:
        """Something was written."""
        self._written_at = time.monotonic()
        if not self._wanted.is_set():
            self._wanted.set()

    def catch_up(self, timeout_s: float) -> bool:
        """Wait until what is written now is indexed; False: it is not, the time is over."""
        settle(self._database)
        until, wanted = time.monotonic() + timeout_s, self._last_sequence()
        self._urgent.set()
        self._wanted.set()
        with self._reached:
            return self._reached.wait_for(lambda: self._indexed >= wanted or self._closed, until - time.monotonic()) and not self._closed

    def close(self) -> None:
        self._closed = True
        self._wanted.set()
        self._urgent.set()
        with self._reached:
            self._reached.notify_all()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._close_files()

    def forget(self, sequences: Iterable[int], *, wipe: bool) -> None:
        """Take these records out; call it before their rows are removed.

        Args:
            wipe: leave no trace of them in the file either; rewrites the index, which takes seconds where it is large.

        Raises:
            StorageError: the index cannot be written.
        """
        with self._lock, storage_errors():
            index, reader = self._open()
            index.execute("BEGIN IMMEDIATE")
            try:
                for sequence in sequences:
                    row = index.execute("SELECT floor FROM documents WHERE sequence = ?", (sequence,)).fetchone()
                    found = None if row is None else document(reader, sequence, int(row[0]))
                    if found is not None:
                        take_out(index, [found])
                index.execute("COMMIT")
            except BaseException:
                index.execute("ROLLBACK")
                raise
            if wipe:
                index.execute("INSERT INTO turns (turns) VALUES ('optimize')")
                index.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def complete(self) -> None:
        """Index again what is there and has lost its words, as `forget` leaves it where no removal followed.

        Raises:
            StorageError: the index cannot be written.
        """
        with self._lock, storage_errors():
            index, reader = self._open()
            documents = lost_documents(reader, index)
            index.execute("BEGIN IMMEDIATE")
            try:
                add(index, documents)
                index.execute("COMMIT")
            except BaseException:
                index.execute("ROLLBACK")
                raise

    def _last_sequence(self) -> int:
        with storage_errors(), contextlib.closing(open_reader(self._database)) as reader:
            return int(reader.execute("SELECT coalesce(max(sequence), 0) FROM records").fetchone()[0])

    def _run(self) -> None:
        while not self._closed:
            self._wanted.wait()
            self._wanted.clear()
            self._await_a_good_time()
            try:
                if self._last_sequence():
                    self._work()
            except (ReefError, sqlite3.Error) as error:
                _log.warning("The search index could not be written: %s", error)
                with self._lock:
                    self._close_files()
                self._urgent.wait(_RETRY_S)
                self._urgent.clear()
                self._wanted.set()

    def _await_a_good_time(self) -> None:
        until = time.monotonic() + _WAIT_S
        while not self._is_idle() and time.monotonic() < until and not self._urgent.wait(_IDLE_S / 2):
            pass

    def _is_idle(self) -> bool:
        return time.monotonic() - self._written_at > _IDLE_S

    def _work(self) -> None:
        while not self._closed:
            at_once = self._urgent.is_set() or self._is_idle()
            began = time.monotonic()
            with self._lock, storage_errors():
                more = self._step(_STEP if at_once else _STEP_UNDER_LOAD)
            if not more:
                self._urgent.clear()
                return
            if not at_once:
                self._urgent.wait((time.monotonic() - began) / _SHARE)

    def _step(self, limit: int) -> bool:
        """Index the next records; False: there are none."""
        index, reader = self._open()
        after = fact(index, "sequence")
        documents, last = next_documents(reader, after, fact(index, "highest"), limit)
        if last > after:
            index.execute("BEGIN IMMEDIATE")
            try:
                add(index, documents)
                set_fact(index, "sequence", last)
                set_fact(index, "highest", max([fact(index, "highest"), *(one.highest for one in documents)]))
                index.execute("COMMIT")
            except BaseException:
                index.execute("ROLLBACK")
                raise
        with self._reached:
            self._indexed = last
            self._reached.notify_all()
        return last > after

    def _open(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        if self._index is None or self._reader is None:
            self._close_files()
            reader = self._reader = open_reader(self._database)
            index = self._index = open_index(self._path)
            ever = reader.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'records'").fetchone()[0]
            if fact(index, "sequence") > ever:  # of another database: an older one was put back
                index.close()
                remove(self._path)
                index = self._index = open_index(self._path)
            highest = reader.execute("SELECT coalesce(max(id), 0) FROM messages").fetchone()[0]
            set_fact(index, "highest", min(fact(index, "highest"), highest))
        return self._index, self._reader

    def _close_files(self) -> None:
        for connection in (self._index, self._reader):
            if connection is not None:
                connection.close()
        self._index = self._reader = None
