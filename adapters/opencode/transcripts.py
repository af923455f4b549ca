"""opencode's sessions: tables `session`, `message` and `part` of `opencode.db`, read only, also while opencode writes."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from daemon.errors import DataError, NotFound
from daemon.importing.conversation import ImportedSession
from daemon.importing.files import MAX_LINE_BYTES, Skipped, parse
from daemon.importing.messages import call
from daemon.importing.openai_chat import count
from daemon.importing.transcript import (
    Place,
    Trail,
    TranscriptReader,
    object_field,
    reply_message,
    summary_message,
    text_field,
    texts_of,
    time_of,
)
from daemon.records import JSON, JSONObject

DATABASE = "opencode.db"
_MAX_STEPS = 200_000_000  # of SQLite's machine, for one statement: no query of ours takes a hundredth of it
_FINISH = {"stop": "stop", "length": "length", "tool-calls": "tool_calls"}


class OpencodeTranscripts(TranscriptReader):
    name = "opencode"
    variable = "XDG_DATA_HOME"
    usual = ".local/share"
    below = f"opencode/{DATABASE}"

    def files(self, path: Path) -> Iterator[Path | Skipped]:
        found = path / DATABASE if path.is_dir() else path
        if not found.exists():
            raise NotFound(f"There is no {found}.", "Name opencode's database, or the folder that it lies in.")
        yield found

    def read(self, path: Path, on_bytes: Callable[[int], None]) -> Iterator[tuple[str, ImportedSession] | Skipped]:
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                yield Skipped(str(path), "not a regular file")
                return
            with closing(_open(path)) as database:
                sessions = database.execute("SELECT id, directory FROM session ORDER BY time_created, id").fetchall()
                for number, (session, directory) in enumerate(sessions, 1):
                    yield from _session(database, f"{path}:{session}", session, directory)
                    on_bytes(status.st_size * number // len(sessions) - status.st_size * (number - 1) // len(sessions))
        except sqlite3.Error as error:
            yield Skipped(str(path), f"cannot be read as opencode's database: {error}")
        except OSError as error:
            yield Skipped(str(path), f"cannot be read: {error.strerror}")


def _open(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing and calls nothing that the file brings along."""
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LINE_BYTES)
    database.execute("PRAGMA query_only = ON")
    database.execute("PRAGMA trusted_schema = OFF")
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1_000_000
        return int(steps > _MAX_STEPS)

    database.set_progress_handler(step, 1_000_000)
    return database


def _session(database: sqlite3.Connection, where: str, session: JSON, directory: JSON) -> Iterator[tuple[str, ImportedSession] | Skipped]:
    trail, place = Trail(), Place()
    asked = database.execute("SELECT id, time_created, data FROM message WHERE session_id = ? ORDER BY time_created, id", (session,))
    try:
        for message, created, data in asked.fetchall():
            told = database.execute("SELECT data FROM part WHERE message_id = ? ORDER BY id", (message,)).fetchall()
            place = _message(trail, place, _value(data), [_value(part) for (part,) in told], created)
        found = trail.session("opencode", session, directory)
    except DataError as error:
        yield Skipped(where, error.message)
        return
    if found is not None:
        yield where, found


def _value(data: JSON) -> JSONObject:
    value = parse(data.encode("utf-8", "surrogatepass")) if isinstance(data, str) else None
    if not isinstance(value, dict):
        raise DataError("a message or a part is no object")
    return value


def _message(trail: Trail, place: Place, message: JSONObject, parts: list[JSONObject], created: JSON) -> Place:
    if message.get("role") == "user":
        text = "\n".join(text_field(part, "text") for part in parts if part.get("type") == "text")
        return trail.said(place, {"role": "user", "content": text}) if text else place
    if message.get("role") != "assistant":
        return place
    if message.get("summary") is True:  # what came before is put together here; the conversation goes on behind it
        return trail.said(Place(), summary_message("".join(text_field(part, "text") for part in parts if part.get("type") == "text")))
    tokens = object_field(message, "tokens")
    cache = object_field(tokens, "cache")
    cached = count(cache.get("read"))
    calls = [part for part in parts if part.get("type") == "tool" and part.get("tool")]
    behind = trail.replied(
        place,
        _reply(parts, calls),
        created_at=time_of(created),
        model=message.get("modelID"),
        finish_reason=_FINISH.get(text_field(message, "finish"), ""),
        usage=(count(tokens.get("input")) + cached + count(cache.get("write")), count(tokens.get("output")), cached),
    )
    return trail.said(behind, *filter(None, map(_result, calls))) if behind != place else place


def _reply(parts: list[JSONObject], calls: list[JSONObject]) -> JSONObject:
    made: list[JSON] = [
        call(text_field(part, "tool"), object_field(part, "state").get("input"), text_field(part, "callID")) for part in calls
    ]
    return reply_message(texts_of(parts, "text"), texts_of(parts, "reasoning"), made)


def _result(part: JSONObject) -> JSONObject | None:
    state = object_field(part, "state")
    status = state.get("status")
    if status not in ("completed", "error"):
        return None  # it was broken off
    content = text_field(state, "output" if status == "completed" else "error")
    return {"role": "tool", "tool_call_id": text_field(part, "callID"), "content": content}


READER = OpencodeTranscripts()
