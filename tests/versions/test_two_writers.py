"""Processes that publish at once: one wins, the others are told which head stands, and nothing of theirs stays behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from daemon.versions.fsck import fsck
from daemon.versions.repository import Repository
from tests.versions.parts import draft, tree

ROOT = Path(__file__).parents[2]
PROCESSES, EACH = 2, 10


def test_of_processes_that_publish_at_once_one_wins_each_time(tmp_path: Path) -> None:
    path = tmp_path / "versions.git"
    Repository(path).publish(draft(tree(rules="- first")), None)
    command = [sys.executable, "-m", "tests.versions.publish_in_race", str(path)]
    writers = [
        subprocess.Popen([*command, f"w{number}", str(EACH)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(PROCESSES)
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    told = [line.split(" ", 2) for writer in writers for line in writer.communicate(timeout=60)[0].splitlines()]
    assert len(told) == PROCESSES * EACH and all(writer.returncode == 0 for writer in writers)
    won, lost = ([line for line in told if line[0] == word] for word in ("won", "lost"))
    repository = Repository(path)
    chain = repository.chain("default")
    assert {(release.id, release.commit_id) for release in chain[:-1]} == {(line[1], line[2]) for line in won}
    assert won and lost, "they did not meet"
    for _, seen, message in lost:
        stands = re.match(r"(r\d+) is the head of default now; you saw (r\d+)\.", message)
        assert stands is not None and stands[2] == seen and stands[1] != seen
    assert fsck(repository) == [], "what a loser had prepared is still there"
