"""A database of the first schema opens, with all that was in it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import zstandard
from sqlite_utils import Database

from daemon.experience.check import check, check_search
from daemon.experience.packing import digest
from daemon.experience.reader import Reader
from daemon.experience.schema import MIGRATIONS
from daemon.experience.store import Store
from daemon.records import Message
from tests.experience.make import assistant, inference, user


def _old(path: Path) -> list[Message]:
    """Two turns of one session under two releases, and a report; as the first schema held them."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    MIGRATIONS[0](Database(connection))
    connection.execute("PRAGMA user_version = 1")
    connection.execute("INSERT INTO facts VALUES ('state', 'closed')")
    connection.execute("INSERT INTO scenarios (id, name, created_at) VALUES (1, 'default', 1.0)")
    connection.executemany("INSERT INTO words VALUES (?, ?)", [(1, "r1"), (2, "smol"), (3, "chat"), (4, "r2")])
    messages = [user("Where is the lighthouse?"), assistant("On the cliff. " * 60), user("And the ferry?"), assistant("At the pier.")]
    parent, above = None, b""
    for number, message in enumerate(messages, 1):
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        packed = b"\x01" + zstandard.ZstdCompressor(level=3).compress(body) if len(body) > 96 else b"\x00" + body
        above = digest(above, digest(body))
        if len(body) > 512:
            connection.execute("INSERT INTO blobs VALUES (1, ?, ?)", (digest(body), packed))
        connection.execute(
            "INSERT INTO messages VALUES (?, ?, ?, ?, ?)",
            (number, above, parent, None if len(body) > 512 else packed, 1 if len(body) > 512 else None),
        )
        parent = number
    connection.execute("INSERT INTO sessions VALUES (1, 1, 'old', 1.0, 2.0, 2, 'Where is the lighthouse?', 2, 0)")
    for sequence, (prompt, release) in enumerate([(1, 1), (3, 4)], 1):
        connection.execute("INSERT INTO records VALUES (?, 1, ?, 'inference', ?)", (sequence, f"rec_{sequence}", float(sequence)))
        connection.execute(
            "INSERT INTO inferences VALUES (?, 1, 'turn', 'ok', 'stop', ?, NULL, 2, 3, ?, NULL, ?, x'00', ?, NULL, NULL)",
            (sequence, release, prompt, prompt + 1, b'\x00{"usage":[1,2,0],"ms":[1.0,2.0]}'),
        )
    connection.execute("INSERT INTO records VALUES (3, 1, 'rep_1', 'report', 3.0)")
    connection.execute("INSERT INTO reports VALUES (3, 1.0, '\"well found\"', '{}')")
    connection.execute("INSERT INTO report_references VALUES (3, 0, 2)")
    connection.close()
    return messages


def test_a_database_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "experience.db"
    messages = _old(path)
    assert check(path) == []  # before, with the daemon down
    store = Store.open(path)
    reader = Reader(path)
    assert store.catch_up(10)
    [summary] = reader.sessions("default")
    assert (summary.releases, summary.reports, summary.turns, summary.last_receipt) == (("r1", "r2"), 1, 2, "rec_2")
    view = reader.session("old")
    assert [turn.inference.messages for turn in view.turns] == [tuple(messages[:1]), tuple(messages[:3])]
    assert [turn.inference.reply for turn in view.turns] == [messages[1], messages[3]]
    assert [found.id for found in reader.sessions("default", q='"well found"')] == ["old"]
    assert [found.id for found in reader.sessions("default", q="lighthouse")] == ["old"]
    store.append(inference([*messages, user("Thanks")], session="old", release_id="r3")).result(10)
    [summary] = reader.sessions("default")
    assert (summary.releases, summary.turns, summary.reports) == (("r1", "r2", "r3"), 3, 1)
    assert reader.connection().execute("SELECT count(*) FROM messages").fetchone()[0] == 6  # what stood already is not stored again
    reader.close()
    store.close()
    assert check(path) == [] == check_search(path)
    assert (tmp_path / "experience.db.schema1.backup").exists()
