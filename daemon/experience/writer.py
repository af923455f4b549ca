"""One thread that writes. Whatever waits while a commit is on its way to the disk goes into the next commit together."""

from __future__ import annotations

import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from daemon.errors import ReefError, StorageError
from daemon.experience.database import map_error
from daemon.failpoints import failpoint
from daemon.measures import CommitMeasures

T = TypeVar("T")
_log = logging.getLogger(__name__)
_MAX_BATCH = 512


class _Job(Generic[T]):
    __slots__ = ("function", "future", "result")

    def __init__(self, function: Callable[[sqlite3.Connection], T]) -> None:
        self.function = function
        self.future: Future[T] = Future()
        self.result: tuple[T] | None = None

    def attempt(self, connection: sqlite3.Connection) -> bool:
        """Run inside a savepoint; False: it failed, was undone, and its future knows why.

        Raises sqlite3.Error where SQLite has given up the whole transaction, as it does when the disk is full.
        """
        connection.execute("SAVEPOINT job")
        try:
            self.result = (self.function(connection),)
        except Exception as error:  # top of the thread: one caller's bug must not take the others' records with it
            if isinstance(error, sqlite3.Error) and not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            self.fail(error)
            return False
        connection.execute("RELEASE job")
        return True

    def fail(self, error: Exception) -> None:
        """Let the future fail with a `ReefError`; what is a bug of ours is logged with its traceback."""
        if isinstance(error, sqlite3.Error):
            self.future.set_exception(map_error(error))
        elif isinstance(error, ReefError):
            self.future.set_exception(error)
        else:
            _log.error("A write to the experience database failed", exc_info=error)
            self.future.set_exception(StorageError("The experience could not be written.", "The daemon's log has the details: reef logs."))

    def resolve(self) -> None:
        if self.result is not None:
            self.future.set_result(self.result[0])


class Writer:
    """Owns the writing connection. Futures resolve after the commit that holds their rows is on disk."""

    def __init__(self, connection: sqlite3.Connection, on_rollback: Callable[[], None]) -> None:
        """`on_rollback` drops what the caller remembers of rows that were undone."""
        self._connection = connection
        self._on_rollback = on_rollback
        self.measures = CommitMeasures()
        self._queue: queue.SimpleQueue[_Job[object] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="experience-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Queue `function`; it runs alone on the writing connection, inside a transaction."""
        job = _Job(function)
        job.future.set_running_or_notify_cancel()  # a write that was asked for cannot be taken back
        with self._lock:
            if self._closed:
                raise StorageError("The experience store is closed.", "Start the daemon again.")
            self._queue.put(job)  # type: ignore[arg-type]  # a queue of jobs of any result
        return job.future

    def close(self) -> bool:
        """Write what waits, then end the thread; False: it was closed before. The connection stays with its owner."""
        with self._lock:
            first, self._closed = not self._closed, True
            if first:
                self._queue.put(None)
        self._thread.join()
        return first

    def _run(self) -> None:
        ended = False
        while not ended:
            jobs: list[_Job[object]] = []
            item = self._queue.get()
            while True:
                if item is None:
                    ended = True
                    break
                jobs.append(item)
                if len(jobs) == _MAX_BATCH:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if jobs:
                self._commit(jobs)

    def _commit(self, jobs: list[_Job[object]]) -> None:
        connection = self._connection
        done: list[_Job[object]] = []
        started = time.perf_counter()
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                if job.attempt(connection):
                    done.append(job)
                else:
                    self._on_rollback()
            failpoint("admission.in-transaction")
            connection.execute("COMMIT")
            failpoint("admission.committed")
        except sqlite3.Error as error:
            self._on_rollback()
            self.measures.failed += 1
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # the disk fails even for that: the next BEGIN will say so
                    connection.execute("ROLLBACK")
            for job in jobs:
                if not job.future.done():
                    job.fail(error)
            return
        self.measures.commit(time.perf_counter() - started, len(jobs))
        for job in done:
            job.resolve()
