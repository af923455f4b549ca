"""One thread that writes. Whatever waits while a commit is on its way to the disk goes into the next commit together."""

from __future__ import annotations

import contextlib
import itertools
import logging
import queue
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from daemon.errors import ReefError, StorageError
from daemon.experience.database import map_error
from daemon.failpoints import failpoint
from daemon.observing import request_facts
from daemon.observing.measures import CommitMeasures

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 -- what is written many at a time
_log = logging.getLogger(__name__)
_MAX_BATCH = 512


class Items(ABC, Generic[I]):
    """Records that are written many at a time. Called on the writer's thread, inside its transaction."""

    @abstractmethod
    def write(self, connection: sqlite3.Connection, items: Sequence[I]) -> list[int]:
        """Write all, in order; the place of each. Where it raises, none is written, and each is tried alone."""

    @abstractmethod
    def write_one(self, connection: sqlite3.Connection, item: I) -> int:
        """Write one alone. Raises `ReefError` where it is the item's own fault."""

    @abstractmethod
    def undone(self) -> None:
        """Rows that were written are gone again: forget their ids."""

    @abstractmethod
    def committed(self) -> None:
        """What was written is on disk."""


class _Job(Generic[T]):
    __slots__ = ("asked", "function", "future", "result")

    def __init__(self, function: Callable[[sqlite3.Connection], T]) -> None:
        self.asked = request_facts.current()  # whose request it is, for the log
        self.function = function
        self.future: Future[T] = Future()
        self.result: tuple[T] | None = None

    def attempt(self, connection: sqlite3.Connection) -> bool:
        """Run inside a savepoint; False: it failed, was undone, and its future knows why.

        Raises sqlite3.Error where SQLite has given up the whole transaction, as it does when the disk is full.
        """
        try:
            with _savepoint(connection):
                self.result = (self.function(connection),)
        except Exception as error:  # top of the thread: one caller's bug must not take the others' records with it
            if isinstance(error, sqlite3.Error) and not connection.in_transaction:
                raise
            self.fail(error)
            return False
        return True

    def fail(self, error: Exception) -> None:
        """Let the future fail with a `ReefError`; what is a bug of ours is logged with its traceback."""
        if isinstance(error, sqlite3.Error):
            self.future.set_exception(map_error(error))
        elif isinstance(error, ReefError):
            self.future.set_exception(error)
        else:
            request_facts.begin(self.asked)
            _log.error("A write to the experience database failed", exc_info=error)
            request_facts.begin(None)
            self.future.set_exception(StorageError("The experience could not be written.", "The daemon's log has the details: reef logs."))

    def resolve(self) -> None:
        if self.result is not None:
            self.future.set_result(self.result[0])


class _ItemJob(_Job[int], Generic[I]):
    __slots__ = ("item",)

    def __init__(self, items: Items[I], item: I) -> None:
        super().__init__(lambda connection: items.write_one(connection, item))
        self.item = item


class _Alone(_Job[T], Generic[T]):
    """Runs outside any transaction: some pragmas and VACUUM work there only."""

    __slots__ = ()

    def run(self, connection: sqlite3.Connection) -> None:
        try:
            self.result = (self.function(connection),)
        except Exception as error:  # noqa: BLE001 - top of the thread: its future knows why
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self.fail(error)
            return
        self.resolve()


class Writer(Generic[I]):
    """Owns the writing connection. Futures resolve after the commit that holds their rows is on disk."""

    def __init__(self, connection: sqlite3.Connection, items: Items[I]) -> None:
        self._connection = connection
        self._items = items
        self.measures = CommitMeasures()
        self._queue: queue.SimpleQueue[_Job[object] | _ItemJob[I] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="experience-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Queue `function`; it runs alone on the writing connection, inside a transaction."""
        job = _Job(function)
        self._put(job)  # type: ignore[arg-type]  # a queue of jobs of any result
        return job.future

    def add(self, item: I) -> Future[int]:
        """Queue an item; it is written together with those that wait beside it."""
        job = _ItemJob(self._items, item)
        self._put(job)
        return job.future

    def alone(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Queue `function`; it runs between two transactions and begins its own."""
        job = _Alone(function)
        self._put(job)  # type: ignore[arg-type]  # a queue of jobs of any result
        return job.future

    def close(self) -> bool:
        """Write what waits, then end the thread; False: it was closed before. The connection stays with its owner."""
        with self._lock:
            first, self._closed = not self._closed, True
            if first:
                self._queue.put(None)
        self._thread.join()
        return first

    def _put(self, job: _Job[object] | _ItemJob[I]) -> None:
        job.future.set_running_or_notify_cancel()  # a write that was asked for cannot be taken back
        with self._lock:
            if self._closed:
                raise StorageError("The experience store is closed.", "Start the daemon again.")
            self._queue.put(job)

    def _run(self) -> None:
        ended = False
        while not ended:
            jobs: list[_Job[object] | _ItemJob[I]] = []
            alone: _Alone[object] | None = None
            job = self._queue.get()
            while True:
                if job is None:
                    ended = True
                    break
                if isinstance(job, _Alone):
                    alone = job
                    break
                jobs.append(job)
                if len(jobs) == _MAX_BATCH:
                    break
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
            if jobs:
                self._commit(jobs)
            if alone is not None:
                alone.run(self._connection)
                self._items.undone()

    def _commit(self, jobs: list[_Job[object] | _ItemJob[I]]) -> None:
        connection = self._connection
        started = time.perf_counter()
        try:
            connection.execute("BEGIN IMMEDIATE")
            if not self._write_all(jobs):
                for _, neighbours in itertools.groupby(jobs, key=lambda job: isinstance(job, _ItemJob)):
                    self._write(list(neighbours))
            failpoint("admission.in-transaction")
            connection.execute("COMMIT")
            failpoint("admission.committed")
        except sqlite3.Error as error:
            self._items.undone()
            self.measures.refused(str(map_error(error)))
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # the disk fails even for that: the next BEGIN will say so
                    connection.execute("ROLLBACK")
            for job in jobs:
                if not job.future.done():
                    job.fail(error)
            return
        self.measures.commit(time.perf_counter() - started, len(jobs))
        for job in jobs:
            if not job.future.done():
                job.resolve()
        self._items.committed()

    def _write_all(self, jobs: list[_Job[object] | _ItemJob[I]]) -> bool:
        """The usual batch, nothing but items, without a savepoint; False: nothing was written, and the transaction is a new one."""
        items = [job for job in jobs if isinstance(job, _ItemJob)]
        if len(items) < len(jobs):
            return False
        if self._write_together(items, contextlib.nullcontext()):
            return True
        self._connection.execute("ROLLBACK")
        self._connection.execute("BEGIN IMMEDIATE")
        return False

    def _write(self, jobs: list[_Job[object] | _ItemJob[I]]) -> None:
        """Neighbours of one kind: items together, if that goes; all else one by one."""
        items = [job for job in jobs if isinstance(job, _ItemJob)]
        if len(items) > 1 and self._write_together(items, _savepoint(self._connection)):
            return
        for job in jobs:
            if not job.attempt(self._connection):
                self._items.undone()

    def _write_together(self, jobs: list[_ItemJob[I]], within: contextlib.AbstractContextManager[None]) -> bool:
        """All in one go; False: each is to be tried alone. `within` undoes what was written, if it raises."""
        try:
            with within:
                places = self._items.write(self._connection, [job.item for job in jobs])
        except Exception as error:  # one of them is at fault, or a bug: alone, each gets its own answer
            self._items.undone()
            if isinstance(error, sqlite3.Error) and not self._connection.in_transaction:
                raise
            return False
        for job, place in zip(jobs, places, strict=True):
            job.result = (place,)
        return True


@contextlib.contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    """Undo what is written inside if it raises, unless SQLite has undone the whole transaction already."""
    connection.execute("SAVEPOINT job")
    try:
        yield
    except Exception:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
        raise
    connection.execute("RELEASE job")
