"""What waits for the writer's thread."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from daemon.errors import ReefError, StorageError
from daemon.experience.database import map_error
from daemon.observing import request_facts

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 -- what is written many at a time
_log = logging.getLogger(__name__)


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


class JournaledItems(Items[I]):
    """Items that a journal keeps first: their receipts wait for that alone, and the tables take them up behind it."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """How many are in the journal and not in the tables."""

    @property
    @abstractmethod
    def is_full(self) -> bool:
        """Whether so much waits that more receipts have to wait for the tables."""

    @abstractmethod
    def admit(self, connection: sqlite3.Connection, items: Sequence[I]) -> list[int]:
        """Put all into the journal, on disk, outside any transaction; the place of each. Where it raises, none is there."""

    @abstractmethod
    def file(self, connection: sqlite3.Connection, limit: int) -> None:
        """Write the oldest into the tables, inside a transaction. Raises sqlite3.Error where the disk fails."""

    @abstractmethod
    def filed(self) -> None:
        """What `file` wrote is on disk."""


class Job(Generic[T]):
    """Something to write, alone."""

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
            with savepoint(connection):
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


class ItemJob(Job[int], Generic[I]):
    __slots__ = ("item",)

    def __init__(self, items: Items[I], item: I) -> None:
        super().__init__(lambda connection: items.write_one(connection, item))
        self.item = item


class Alone(Job[T], Generic[T]):
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


@contextlib.contextmanager
def savepoint(connection: sqlite3.Connection) -> Iterator[None]:
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
