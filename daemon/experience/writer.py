"""One thread that writes. Whatever waits while a commit is on its way to the disk goes into the next commit together.

Items that have a journal are on disk, and whoever waits for them is told, once that has them; the tables take them up when nothing
waits, before any other job runs, and when the journal is full.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from daemon.errors import StorageError
from daemon.experience.database import map_error
from daemon.experience.jobs import Alone, FunctionJob, ItemJob, Items, Job, JournaledItems, Told, savepoint
from daemon.failpoints import failpoint
from daemon.observing.measures import CommitMeasures

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 -- what is written many at a time
_MAX_BATCH = 512
_CHUNK = 32  # entries that are filed at a time, so that a record that comes meanwhile waits for two milliseconds at most
_PAUSE_S = 0.05  # without a job before entries are filed: while records keep coming, receipts go first
_RETRY_S = 1.0  # after an error of the disk

_Any: TypeAlias = Job[object] | ItemJob[I]


class _Mark(Enum):
    END = 1
    ENOUGH = 2


class Writer(Generic[I]):
    """Owns the writing connection. Futures resolve after the commit that holds their rows is on disk."""

    def __init__(self, connection: sqlite3.Connection, items: Items[I]) -> None:
        self._connection = connection
        self._items = items
        self._journaled = items if isinstance(items, JournaledItems) else None
        self.measures = CommitMeasures()
        self._queue: queue.SimpleQueue[_Any[I] | Alone[object] | _Mark] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="experience-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Queue `function`; it runs alone on the writing connection, inside a transaction."""
        future: Future[T] = _promised()
        self._put(FunctionJob(function, future))  # type: ignore[arg-type]  # a queue of jobs of any result
        return future

    def add(self, item: I) -> Future[int]:
        """Queue an item; it is written together with those that wait beside it."""
        future: Future[int] = _promised()
        self._put(ItemJob(self._items, item, future, new=False))
        return future

    def add_new(self, item: I, told: Told[int]) -> None:
        """The same for an item whose id was made for it, so that nothing has it yet."""
        self._put(ItemJob(self._items, item, told, new=True))

    def alone(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Queue `function`; it runs between two transactions and begins its own."""
        future: Future[T] = _promised()
        self._put(Alone(function, future))  # type: ignore[arg-type]  # a queue of jobs of any result
        return future

    def settle(self) -> None:
        """Return when the tables hold all that has a receipt, or the disk does not let them. Any thread may ask."""
        if self._journaled is None or not self._journaled.waiting or threading.current_thread() is self._thread:
            return
        with contextlib.suppress(StorageError):  # closed: it is settled; or the disk fails, and what can be read stays readable
            self.submit(lambda _: None).result()

    def close(self) -> bool:
        """Write what waits, then end the thread; False: it was closed before. The connection stays with its owner."""
        with self._lock:
            first, self._closed = not self._closed, True
            if first:
                self._queue.put(_Mark.END)
        self._thread.join()
        return first

    def _put(self, job: _Any[I] | Alone[object]) -> None:
        with self._lock:
            if self._closed:
                raise StorageError("The experience store is closed.", "Start the daemon again.")
            self._queue.put(job)

    def _run(self) -> None:
        pause = _PAUSE_S
        ended = False
        while not ended:
            try:
                job = self._queue.get(timeout=pause if self._journaled is not None and self._journaled.waiting else None)
            except queue.Empty:
                pause = _RETRY_S if self._file(_CHUNK) else 0.0
                continue
            pause = _PAUSE_S
            jobs: list[_Any[I]] = []
            while isinstance(job, Job) and not isinstance(job, Alone):
                jobs.append(job)
                try:
                    job = self._queue.get_nowait() if len(jobs) < _MAX_BATCH else _Mark.ENOUGH
                except queue.Empty:
                    job = _Mark.ENOUGH
            if jobs:
                self._write_jobs(jobs)
            if isinstance(job, Alone):
                self._run_alone(job)
            ended = job is _Mark.END
        self._settle()

    def _run_alone(self, job: Alone[object]) -> None:
        error = self._settle()
        if error is not None:
            job.fail(error)
            return
        job.run(self._connection)
        self._items.undone()

    def _write_jobs(self, jobs: list[_Any[I]]) -> None:
        """Items alone go into the journal; what comes with other jobs goes into the tables, in the order in which it came."""
        items = [job for job in jobs if isinstance(job, ItemJob)]
        error = None
        if self._journaled is not None:
            if len(items) == len(jobs):
                error = self._file(max(_CHUNK, 2 * len(jobs))) if self._journaled.is_full else None
                if error is None and self._admit(self._journaled, items):
                    return
            error = error or self._settle()
        if error is None:
            self._commit(jobs)
            return
        for job in jobs:
            job.fail(error)

    def _admit(self, journaled: JournaledItems[I], jobs: list[ItemJob[I]]) -> bool:
        """False: nothing was admitted, and each is to be tried alone."""
        started = time.perf_counter()
        try:
            places = journaled.admit(self._connection, [job.item for job in jobs], [job.item for job in jobs if not job.new])
        except StorageError as error:
            journaled.undone()
            self.measures.refused(error.message)
            for job in jobs:
                job.fail(error)
            return True
        except Exception:  # noqa: BLE001 - one of them is at fault, or a bug: alone, each gets its own answer
            journaled.undone()
            return False
        self.measures.commit(time.perf_counter() - started, len(jobs))
        for job, place in zip(jobs, places, strict=True):
            job.told.set_result(place)
        return True

    def _settle(self) -> sqlite3.Error | StorageError | None:
        """File all that waits; what the disk says, where it fails."""
        while self._journaled is not None and self._journaled.waiting:
            if (error := self._file(_MAX_BATCH)) is not None:
                return error
        return None

    def _file(self, limit: int) -> sqlite3.Error | StorageError | None:
        """Bring entries from the journal into the tables; what the disk says, where it fails."""
        if self._journaled is None:
            return None
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._journaled.file(connection, limit)
            failpoint("filing.in-transaction")
            connection.execute("COMMIT")
            failpoint("filing.committed")
        except (sqlite3.Error, StorageError) as error:
            self._undo(error)
            return error
        self._journaled.filed()
        return None

    def _commit(self, jobs: list[_Any[I]]) -> None:
        connection = self._connection
        started = time.perf_counter()
        try:
            connection.execute("BEGIN IMMEDIATE")
            if not self._write_all(jobs):
                for _, neighbours in itertools.groupby(jobs, key=lambda job: isinstance(job, ItemJob)):
                    self._write(list(neighbours))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo(error)
            for job in jobs:
                if not job.answered:
                    job.fail(error)
            return
        self.measures.commit(time.perf_counter() - started, len(jobs))
        for job in jobs:
            job.resolve()
        self._items.committed()

    def _undo(self, error: sqlite3.Error | StorageError) -> None:
        self._items.undone()
        self.measures.refused(str(map_error(error)) if isinstance(error, sqlite3.Error) else error.message)
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the disk fails even for that: the next BEGIN will say so
                self._connection.execute("ROLLBACK")

    def _write_all(self, jobs: list[_Any[I]]) -> bool:
        """The usual batch, nothing but items, without a savepoint; False: nothing was written, and the transaction is a new one."""
        items = [job for job in jobs if isinstance(job, ItemJob)]
        if len(items) < len(jobs):
            return False
        if self._write_together(items, contextlib.nullcontext()):
            return True
        self._connection.execute("ROLLBACK")
        self._connection.execute("BEGIN IMMEDIATE")
        return False

    def _write(self, jobs: list[_Any[I]]) -> None:
        """Neighbours of one kind: items together, if that goes; all else one by one."""
        items = [job for job in jobs if isinstance(job, ItemJob)]
        if len(items) > 1 and self._write_together(items, savepoint(self._connection)):
            return
        for job in jobs:
            if not job.attempt(self._connection):
                self._items.undone()

    def _write_together(self, jobs: list[ItemJob[I]], within: contextlib.AbstractContextManager[None]) -> bool:
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


def _promised() -> Future[T]:
    """A write that was asked for cannot be taken back."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    return future
