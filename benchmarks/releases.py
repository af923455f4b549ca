"""What a long history costs: 1,000 releases and 10,000 sessions, on the embedded model.

    .venv/bin/python -m benchmarks.releases [--releases 1000] [--sessions 10000] [--rounds 9] [--keep FOLDER] [--json]

`reef releases` is held against `reef status`, as whole processes in turn, by their medians: 1.5 times. A rollback between two LoRAs is
timed until the first token of the release that it brings back: 1 s. A publication's syncs are counted, against those that it needs for
every file of weights, the ref and their folders, with git's objects in one pack: 3 times. Exit code 1 if a limit is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import app
from benchmarks.releases_home import add_releases, add_sessions
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from daemon.versions.repository import Repository
from tests.e2e.faults.scene import lora_folder
from tests.e2e.reef_home import ReefHome

_UNCHANGED = ("reef/numbers", "reef/lock", "refs/heads")
"""A counter, a lock and the mirror for clones: what a power cut takes of these is put right by the next start."""
_PACK, _COMMIT = 3, 1
"""Syncs of a pack (itself, its index, their folder), and of a transaction of SQLite."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def held(self) -> bool:
        return self.limit is None or self.value <= self.limit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--keep", type=Path, help="make the home here, or take the one that an earlier run left here")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="reef-releases-"))
    try:
        rows = list(measure(folder, options.releases, options.sessions, options.rounds))
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps([{"name": row.name, "value": row.value, "unit": row.unit, "limit": row.limit, "held": row.held} for row in rows]))
    else:
        for row in rows:
            limit = f"limit {row.limit:g}{'' if row.held else '  PASSED'}" if row.limit is not None else ""
            print(f"{row.name:52} {row.value:9.2f} {row.unit:6} {limit:14} {row.note}".rstrip())
    return 0 if all(row.held for row in rows) else 1


def measure(folder: Path, releases: int, sessions: int, rounds: int) -> Iterator[Row]:
    with ReefHome(folder / "home") as reef:
        if not (folder / "built").exists():
            reef.start()
            reef.stop()
            add_releases(reef, releases)
            add_sessions(reef.home.database, sessions)
            reef.start()  # the log takes the releases up
            reef.stop()
            (folder / "built").touch()
        yield from _syncs(folder)
        yield _process("reef fsck", reef, "fsck")
        began = time.perf_counter()
        reef.start()
        yield Row("start of the daemon, until it answers", time.perf_counter() - began, "s")
        yield from _lists(reef, rounds)
        yield from _rollbacks(reef, rounds)
        yield _process("reef gc --dry-run", reef, "gc", "--dry-run")
        yield from _app(reef, rounds)


def _lists(reef: ReefHome, rounds: int) -> Iterator[Row]:
    """Whole processes, in turn; the first round warms up."""
    times: dict[str, list[float]] = {"status": [], "releases": []}
    for turn in range(rounds + 1):
        for verb, taken in times.items():
            seconds = _seconds(reef, verb)
            if turn:
                taken.append(seconds)
    medians = {verb: statistics.median(taken) for verb, taken in times.items()}
    yield Row("reef status", 1000 * medians["status"], "ms")
    yield Row("reef releases", 1000 * medians["releases"], "ms")
    yield Row("reef releases, against reef status", medians["releases"] / medians["status"], "times", 1.5)


def _rollbacks(reef: ReefHome, rounds: int) -> Iterator[Row]:
    """Back and forth between the newest releases with one LoRA and the other, each time a new release."""
    listed = reef.get("/reef/scenarios/default/releases?limit=200")["releases"]
    newest: dict[str, str] = {}
    for one in listed:
        if one["lora"]:
            newest.setdefault(one["lora"], one["release_id"])
    targets = list(newest.values())[:2]
    taken: list[float] = []
    for turn in range(rounds + 1):
        target = targets[(turn + 1) % 2]
        began = time.perf_counter()
        moved = reef.post("/reef/scenarios/default/rollback", {"release_id": target})
        _first_token(reef, str(moved["release_id"]))
        if turn:
            taken.append(time.perf_counter() - began)
    yield Row("rollback, until the first token of the old release", statistics.median(taken), "s", 1.0, f"slowest {max(taken):.2f}")


def _first_token(reef: ReefHome, release: str) -> None:
    """Of a new session. Raises RuntimeError if another release answers."""
    body = {"model": reef.model, "stream": True, "max_tokens": 4, "messages": [{"role": "user", "content": f"Hello {release}."}]}
    headers = {"authorization": f"Bearer {reef.token('client')}"}
    with reef.http.stream("POST", f"{reef.url}/v1/chat/completions", json=body, headers=headers) as answer:
        if answer.headers["x-reef-release-id"] != release:
            raise RuntimeError(f"{answer.headers['x-reef-release-id']} answered instead of {release}")
        for line in answer.iter_lines():
            if line.startswith("data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                return


def _syncs(folder: Path) -> Iterator[Row]:
    """Of one publication with rules, an evaluation and three new files of weights; SQLite's one commit is counted on both sides."""
    home = folder / "syncs"
    shutil.rmtree(home, ignore_errors=True)
    weights = lora_folder(home / "lora", 7)
    repository = Repository(home / "versions.git")
    try:
        base = Repository(folder / "home" / "versions.git", only_look=True).head("default")
        if base is None:
            raise RuntimeError("the home holds no release")
        first = Draft("default", Operation.CREATION, base.manifest.base)
        repository.publish(first, None)
        before = _state(repository.path)
        draft = Draft("default", Operation.TRAINING, base.manifest.base, base.tree, weights, evaluation=base.evaluation)
        with _counted() as count:
            repository.publish(draft, "r1")
        needed = _needed(repository.path, before, _state(repository.path))
    finally:
        repository.close()
    done = count() + _COMMIT
    yield Row("syncs of a publication", done, "")
    yield Row("syncs that it needs", needed, "", note="weights and their folders, one pack, the ref, one commit of SQLite")
    yield Row("syncs, against those that it needs", done / needed, "times", 3.0)


@contextmanager
def _counted() -> Iterator[Callable[[], int]]:
    calls: list[int] = []
    sync = os.fsync

    def counting(descriptor: int) -> None:
        calls.append(descriptor)
        sync(descriptor)

    os.fsync = counting
    try:
        yield lambda: len(calls)
    finally:
        os.fsync = sync


def _state(root: Path) -> dict[Path, tuple[int, int]]:
    """Every file and folder → its inode and the time of its content's last change."""
    found = {}
    for path in [root, *root.rglob("*")]:
        if not str(path.relative_to(root)).startswith(_UNCHANGED):
            about = path.stat()
            found[path] = (about.st_ino, about.st_mtime_ns)
    return found


def _needed(root: Path, before: dict[Path, tuple[int, int]], after: dict[Path, tuple[int, int]]) -> int:
    """Each new or changed file of weights and refs, each folder with a new entry; git's objects as if they were one pack."""
    changed = {path for path, about in after.items() if path.is_file() and before.get(path) != about}
    new = {path for path in after if path.is_dir() and path not in before}
    kept = {path for path in changed | new if path.relative_to(root).parts[0] != "objects"}
    return len({path for path in kept if path.is_file()}) + len({path.parent for path in kept}) + _PACK + _COMMIT


def _process(name: str, reef: ReefHome, *arguments: str) -> Row:
    return Row(name, _seconds(reef, *arguments), "s")


def _seconds(reef: ReefHome, *arguments: str) -> float:
    """Raises CalledProcessError."""
    command = [sys.executable, "-P", "-m", "reef_cli.main", *arguments]
    began = time.perf_counter()
    subprocess.run(command, env=reef.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, timeout=600)
    return time.perf_counter() - began


def _app(reef: ReefHome, rounds: int) -> Iterator[Row]:
    environment = reef.environment()
    opened = app.opening(environment, reef.head(), rounds)
    yield Row("an empty Textual app, first paint", 1000 * opened.empty_s, "ms")
    yield Row("the app, newest releases in sight", 1000 * opened.filled_s, "ms")
    yield Row("first paint of the app, against an empty one", opened.ratio, "times", 2.0, f"{1000 * opened.first_paint_s:.0f} ms")
    for tab in ("releases", "sessions"):
        scrolled = app.scrolling(environment, tab)
        note = f"a page is there after {scrolled.page_ms:.0f} ms"
        yield Row(f"scrolling {tab}, longest stretch of computing", scrolled.longest_ms, "ms", 50.0, note)


if __name__ == "__main__":
    sys.exit(main())
