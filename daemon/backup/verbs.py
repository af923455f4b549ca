"""The verbs `backup` and `restore` on a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from daemon.backup.archive import BackupManifest, verify
from daemon.backup.make import make
from daemon.backup.restore import restore
from daemon.errors import BadRequest, NotFound
from daemon.paths import Home
from daemon.records import JSONObject

T = TypeVar("T")
_EVERY_S = 0.2
_WIDTH = 24


class _Line:
    """One line on stderr that moves; nothing where no terminal looks on."""

    def __init__(self) -> None:
        self._moving = sys.stderr.isatty()
        self._told_at = 0.0

    def tell(self, what: str, done: int, whole: int) -> None:
        if not self._moving or (time.monotonic() - self._told_at < _EVERY_S and done < whole):
            return
        self._told_at = time.monotonic()
        filled = _WIDTH * done // whole if whole else 0
        bar = f" {'█' * filled}{'·' * (_WIDTH - filled)}" if whole else ""
        size = f" {_size(done)}{f' of {_size(whole)}' if whole else ''}" if done else ""
        sys.stderr.write(f"\r\x1b[K{what}{bar}{size}")
        sys.stderr.flush()

    def end(self) -> None:
        if self._moving:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def run_backup(home: Home, file: Path | None, *, check: bool, json_output: bool) -> int:
    """Make a backup, or verify one. Raises ReefError."""
    line = _Line()
    if check:
        if file is None or not file.is_file():
            raise NotFound(f"There is no file {file}." if file else "No file is named.", "Name a backup: reef backup FILE --check")
        manifest = _ended(line, lambda: verify(file, line.tell))
        _say(json_output, _facts(manifest, file), f"{file} is whole: {_what(manifest)}.")
        return 0
    if file is not None and file.is_symlink():
        raise BadRequest(f"{file} is a link.", "Name the file itself.")
    made = _ended(line, lambda: make(home, file, line.tell))
    text = f"{made.path} ({_size(made.size_bytes)}): {_what(made.manifest)}."
    _say(json_output, {**_facts(made.manifest, made.path), "size_bytes": made.size_bytes}, text)
    if not json_output:
        print("  It holds what was said; tokens, base models, agents and runs are not in it. To put it back: reef restore FILE")
    return 0


def run_restore(home: Home, file: Path, *, force: bool, json_output: bool) -> int:
    """Raises ReefError."""
    line = _Line()
    done = _ended(line, lambda: restore(home, file, line.tell, force=force))
    aside = str(done.aside) if done.aside is not None else None
    _say(json_output, {**_facts(done.manifest, file), "aside": aside}, f"Restored into {home.root}: {_what(done.manifest)}.")
    if not json_output:
        if aside:
            print(f"  What was there lies in {aside}.")
        for name, sha256 in done.manifest.models.items():
            print(f"  Releases need the model {name} (sha256 {sha256[:12]}…): unless it came with Reef, put it into {home.models}.")
        print("  Next: reef up. Tokens do not travel: give agents and editors the new one, and install pi again: reef install pi")
    return 0


def _ended(line: _Line, work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        line.end()


def _say(json_output: bool, facts: JSONObject, text: str) -> None:
    print(json.dumps(facts, indent=2) if json_output else text)


def _facts(manifest: BackupManifest, path: Path) -> JSONObject:
    return {
        "file": str(path),
        "version": manifest.version,
        "created_at": manifest.created_at,
        "schema_version": manifest.schema_version,
        "files": len(manifest.files),
        "content_bytes": manifest.size_bytes,
        "models": dict(manifest.models),
    }


def _what(manifest: BackupManifest) -> str:
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest.created_at))
    return f"{len(manifest.files)} files, {_size(manifest.size_bytes)}, made {made} by Reef {manifest.version}"


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
