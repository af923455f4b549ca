"""The daemon's log: JSON lines, bounded, and no trouble when the disk makes some."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

import pytest

from daemon.errors import StorageError
from daemon.experience.store import Store
from daemon.observing import logs, request_facts
from daemon.observing.log_lines import plain, render
from daemon.observing.request_facts import RequestFacts
from daemon.paths import Home


@pytest.fixture
def root_logger():
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield root
    for handler in root.handlers:
        if isinstance(handler, logs.LogFile):
            handler.close()
    root.handlers[:] = before
    root.setLevel(level)


def entries(home: Home) -> list[dict[str, object]]:
    return [json.loads(line) for line in home.log.read_text().splitlines()]


def test_lines_are_objects_with_the_request_that_they_belong_to(tmp_path: Path, root_logger: logging.Logger) -> None:
    home = Home(tmp_path)
    logs.set_up(home)
    token = request_facts.begin(RequestFacts("req_1"))
    logging.getLogger("reef.test").info("said \x1b[2J twice\nover")
    request_facts._facts.reset(token)
    try:
        raise ValueError("deep")
    except ValueError:
        logging.getLogger("reef.test").exception("it broke")
    first, second = entries(home)
    assert first["request_id"] == "req_1" and first["level"] == "info" and str(first["time"]).endswith("Z")
    assert "request_id" not in second and "ValueError: deep" in str(second["trace"])
    assert home.log.stat().st_mode & 0o777 == 0o600, "it names sessions: nobody else may read it"
    assert "\x1b" not in home.log.read_text() and "\x1b" not in render(first, plain)
    shown = render(second, plain).splitlines()
    assert "ERROR reef.test: it broke" in shown[0] and shown[-1].strip() == "ValueError: deep"


def test_the_files_stay_bounded_whatever_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_GATHER_S", 0.0)
    handler = logs.LogFile(tmp_path / "logs/daemon.log", limit_bytes=4000)
    handler.setFormatter(logging.Formatter("%(message)s"))

    def write(number: int) -> None:
        for index in range(100):
            handler.handle(logging.LogRecord("x", logging.WARNING, "", 0, f"{number:02} {index:03} {'x' * 80}", (), None))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.close()
    files = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert files == ["daemon.log", "daemon.log.1", "daemon.log.2"]
    assert all((tmp_path / "logs" / name).stat().st_size <= 4000 for name in files)
    lines = [line for name in files for line in (tmp_path / "logs" / name).read_text().splitlines()]
    assert all(len(line) == 87 for line in lines), "no line is torn"


def test_a_full_disk_loses_lines_and_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logs.LogFile(tmp_path / "daemon.log")
    handler.setFormatter(logging.Formatter("%(message)s"))
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    for text in ("one", "two"):
        monkeypatch.setattr(logs.os, "write", full)
        handler.handle(logging.LogRecord("x", logging.WARNING, "", 0, text, (), None))
    monkeypatch.setattr(logs.os, "write", real)
    handler.handle(logging.LogRecord("x", logging.WARNING, "", 0, "three", (), None))
    handler.close()
    note, kept = (tmp_path / "daemon.log").read_text().splitlines()
    assert json.loads(note)["message"] == "2 lines of the log were lost." and kept == "three"


def test_a_log_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="Cannot write the log"):
        logs.set_up(Home(tmp_path))


def test_what_fails_in_the_writing_thread_names_the_request_that_it_was_for(tmp_path: Path, root_logger: logging.Logger) -> None:
    home = Home(tmp_path)
    logs.set_up(home)
    store = Store.open(home.database)
    token = request_facts._facts.set(RequestFacts("req_7"))
    failing = store.execute(lambda connection: 1 // 0)
    request_facts._facts.reset(token)
    with pytest.raises(StorageError, match="could not be written"):
        failing.result(5)
    other = store.execute(lambda connection: 2 // 0)
    with pytest.raises(StorageError):
        other.result(5)
    store.close()
    first, second = (entry for entry in entries(home) if "ZeroDivisionError" in str(entry.get("trace")))
    assert first["request_id"] == "req_7" and "request_id" not in second
