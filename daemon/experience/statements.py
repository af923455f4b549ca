"""Many rows in few statements.

Python's sqlite3 lets go of the interpreter's lock at every statement and row, and beside a busy event loop each time it wants it
back it waits. So the writer sends a batch's rows table by table, up to `_MOST` in one statement. The connection keeps each count's
statement prepared.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

Value: TypeAlias = "str | int | float | bytes | None"
_MOST = 64


def insert(connection: sqlite3.Connection, into: str, rows: Sequence[Sequence[Value]], conflict: str = "") -> None:
    """Insert `rows` in their order. `into` names table and columns: "t (a, b)"; `conflict` is what follows the values."""
    done = 0
    while done < len(rows):
        count = min(_MOST, len(rows) - done)
        values = [value for row in rows[done : done + count] for value in row]
        connection.execute(_insertion(into, len(rows[0]), count, conflict), values)
        done += count


def select(connection: sqlite3.Connection, query: str, values: Sequence[Value]) -> Iterator[tuple[object, ...]]:
    """All rows of `query`, which ends in a column's name: the rows where it is one of `values`."""
    for start in range(0, len(values), _MOST):
        part = list(values[start : start + _MOST])
        size = 1
        while size < len(part):
            size *= 2
        part += [part[-1]] * (size - len(part))
        yield from connection.execute(f"{query} IN ({','.join('?' * size)})", part).fetchall()


@lru_cache(maxsize=1024)
def _insertion(into: str, columns: int, count: int, conflict: str) -> str:
    row = f"({','.join('?' * columns)})"
    return f"INSERT INTO {into} VALUES {','.join([row] * count)} {conflict}"


def clean(text: str) -> str:
    """SQLite stores valid Unicode only; a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
