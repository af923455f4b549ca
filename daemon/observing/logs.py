"""Where the daemon's log goes: a bounded file of JSON lines in the home, and the terminal when it runs in the foreground."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson

from daemon.errors import StorageError
from daemon.observing.log_lines import plain, render
from daemon.observing.request_facts import request_id
from daemon.paths import Home
from daemon.records import JSONObject

LIMIT_BYTES = 8 << 20
KEPT_FILES = 2  # beside the one that is written
_GATHER_S = 0.2
_MAX_MESSAGE_CHARACTERS = 10_000


def set_up(home: Home) -> None:
    """Log to `home.log`, and to stderr where a person watches. Raises `StorageError` when the file cannot be opened."""
    handlers: list[logging.Handler] = [LogFile(home.log)]
    if sys.stderr.isatty():
        terminal = logging.StreamHandler(sys.stderr)
        terminal.setFormatter(_ForPeople())
        handlers.append(terminal)
    # Nobody reads what these would look up for each line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True, format="%(message)s")
    handlers[0].setFormatter(_JSONLines())
    for noisy in ("httpx", "httpcore", "aiohttp", "watchfiles", "uvicorn.error", "dulwich"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class LogFile(logging.Handler):
    """Lines gather for an instant and are written together, by a thread: a request must not wait for the disk on account of its log.

    What is worth a warning is written at once. A disk that refuses loses lines, and the next one says how many; nothing else fails for it.
    """

    def __init__(self, path: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        """Raises `StorageError` when the file cannot be opened."""
        super().__init__()
        self._path = path
        self._limit_bytes = limit_bytes
        self._lines: list[bytes] = []
        self._lost = 0
        self._waiting = threading.Event()
        self._writing = threading.Lock()
        self._ended = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = _open(path)
        except OSError as error:
            raise StorageError(f"Cannot write the log {path}: {error.strerror}.", "Mend the permissions of Reef's home.") from error
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 -- as any handler: a line that cannot be written must not end what wrote it
            self.handleError(record)
            return
        self._lines.append(line.encode("utf-8", "replace") + b"\n")
        if record.levelno >= logging.WARNING:
            self.flush()
        elif not self._waiting.is_set():  # else the thread will take this line too: it resets it before it looks
            self._waiting.set()

    def flush(self) -> None:
        with self._writing:
            lines, self._lines = self._lines, []
            if lines and not self._ended:
                self._write(lines)

    def close(self) -> None:
        self.flush()
        with self._writing:
            if not self._ended:
                self._ended = True
                os.close(self._descriptor)
        self._waiting.set()
        super().close()

    def _run(self) -> None:
        while not self._ended:
            self._waiting.wait()
            time.sleep(_GATHER_S)
            self._waiting.clear()
            self.flush()

    def _write(self, lines: list[bytes]) -> None:
        data = b"".join(lines)
        if self._lost:
            note = {
                "time": _iso(time.time()),
                "level": "error",
                "logger": "reef.logs",
                "message": f"{self._lost} lines of the log were lost.",
            }
            data = json.dumps(note).encode() + b"\n" + data
        try:
            if os.fstat(self._descriptor).st_size + len(data) > self._limit_bytes:
                self._begin_new()
            written = os.write(self._descriptor, data)
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError:
            self._lost += len(lines)
        else:
            self._lost = 0

    def _begin_new(self) -> None:
        """Set the full file aside, and those before it one further; the oldest goes."""
        os.close(self._descriptor)
        try:
            for number in range(KEPT_FILES, 0, -1):
                older = self._path.with_name(f"{self._path.name}.{number}")
                newer = self._path.with_name(f"{self._path.name}.{number - 1}") if number > 1 else self._path
                with contextlib.suppress(FileNotFoundError):
                    newer.replace(older)
        finally:
            self._descriptor = _open(self._path)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)  # it names sessions: nobody else's business


@functools.lru_cache(maxsize=1)  # lines of a busy daemon come many in a second
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _iso(seconds: float) -> str:
    return f"{_second(int(seconds))}.{int(seconds % 1 * 1000):03d}Z"


def _entry(record: logging.LogRecord) -> JSONObject:
    """A log record as the object that its line holds."""
    found: JSONObject = {"time": _iso(record.created), "level": record.levelname.lower(), "logger": record.name}
    asked = request_id()
    if asked:
        found["request_id"] = asked
    fields = record.__dict__.get("fields")
    if isinstance(fields, dict):
        found.update(fields)
        return found
    found["message"] = record.getMessage()[:_MAX_MESSAGE_CHARACTERS]
    if record.exc_info:
        found["trace"] = logging.Formatter().formatException(record.exc_info)
    return found


class _JSONLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = _entry(record)
        try:
            return orjson.dumps(entry).decode()
        except TypeError:  # half a character
            return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


class _ForPeople(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return render(_entry(record), plain)
