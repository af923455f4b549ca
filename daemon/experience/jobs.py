"""What waits for the writer's thread."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from daemon.errors import ReefError, StorageError
from daemon.experience.database import map_error
from daemon.observing import request_facts

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
I = TypeVar("I")  # noqa: E741 -- what is written many at a time
_log = logging.getLogger(__name__)


class Told(Protocol[T_contra]):
    """Whoever waits for a write; told once, on the writer's thread. A `Future` is one, but it costs a lock for each."""

    def set_result(self, result: T_contra, /) -> None: ...

    def set_exception(self, exception: BaseException | None, /) -> None: ...


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
    def admit(self, connection: sqlite3.Connection, items: Sequence[I], doubtful: Sequence[I]) -> list[int]:
        """Put all into the journal, on disk, outside any transaction; the place of each. Where it raises, none is there.

        Args:
            doubtful: those whose ids may stand already.
        """

    @abstractmethod
    def file(self, connection: sqlite3.Connection, limit: int) -> None:
        """Write the oldest into the tables, inside a transaction. Raises sqlite3.Error where the disk fails."""

    @abstractmethod
    def filed(self) -> None:
        """What `file` wrote is on disk."""


class Job(ABC, Generic[T]):
    """Something to write."""

    __slots__ = ("answered", "asked", "result", "told")

    def __init__(self, told: Told[T]) -> None:
        self.asked = request_facts.current()  # whose request it is, for the log
        self.told = told
        self.result: tuple[T] | None = None
        self.answered = False  # whether whoever waits for it knows what came of it

    @abstractmethod
    def work(self, connection: sqlite3.Connection) -> T:
        """Write it, alone."""

    def attempt(self, connection: sqlite3.Connection) -> bool:
        """Run inside a savepoint; False: it failed, was undone, and whoever waits for it knows why.

        Raises sqlite3.Error where SQLite has given up the whole transaction, as it does when the disk is full.
        """
        try:
            with savepoint(connection):
                self.result = (self.work(connection),)
        except Exception as error:  # top of the thread: one caller's bug must not take the others' records with it
            if isinstance(error, sqlite3.Error) and not connection.in_transaction:
                raise
            self.fail(error)
            return False
        return True

    def fail(self, error: Exception) -> None:
        """Say that it failed, with a `ReefError`; what is a bug of ours is logged with its traceback."""
        self.answered = True
        if isinstance(error, sqlite3.Error):
            self.told.set_exception(map_error(error))
        elif isinstance(error, ReefError):
            self.told.set_exception(error)
        else:
            request_facts.begin(self.asked)
            _log.error("A write to the experience database failed", exc_info=error)
            request_facts.begin(None)
            self.told.set_exception(StorageError("The experience could not be written.", "The daemon's log has the details: reef logs."))

    def resolve(self) -> None:
        if self.result is not None and not self.answered:
            self.answered = True
            self.told.set_result(self.result[0])


class FunctionJob(Job[T], Generic[T]):
    """A function of the caller's."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[sqlite3.Connection], T], told: Told[T]) -> None:
        super().__init__(told)
        self.function = function

    def work(self, connection: sqlite3.Connection) -> T:
        return self.function(connection)


class ItemJob(Job[int], Generic[I]):
    """One of `items`, which are written many at a time if that goes."""

    __slots__ = ("item", "items", "new")

    def __init__(self, items: Items[I], item: I, told: Told[int], *, new: bool) -> None:
        """`new`: its id was made for it, so nothing has it yet."""
        super().__init__(told)
        self.items = items
        self.item = item
        self.new = new

    def work(self, connection: sqlite3.Connection) -> int:
        return self.items.write_one(connection, self.item)


class Alone(FunctionJob[T], Generic[T]):
    """Runs outside any transaction: some pragmas and VACUUM work there only."""

    __slots__ = ()

    def run(self, connection: sqlite3.Connection) -> None:
        try:
            self.result = (self.work(connection),)
        except Exception as error:  # noqa: BLE001 - top of the thread: whoever waits for it knows why
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
