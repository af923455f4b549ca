"""A release is whole: killed anywhere in publishing, the old or the new one is the head, and publishing goes on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daemon.versions.fsck import Severity, fsck
from daemon.versions.repository import Repository
from tests.versions.parts import draft, lora_folder, tree

ROOT = Path(__file__).parents[2]


def start(path: Path, folder: Path, count: int, failpoint: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.versions.publish_in_loop", str(path), str(folder), str(count)]
    environment = {**os.environ, "REEF_FAILPOINT": failpoint}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def check(path: Path, printed: list[str]) -> None:
    repository = Repository(path)
    assert [problem for problem in fsck(repository) if problem.severity is Severity.ERROR] == []
    chain = {f"{release.id} {release.commit_id}" for release in repository.chain("default")}
    assert set(printed) <= chain, "a release that was announced is gone"
    for release in repository.chain("default"):
        assert repository.checkout_lora_folder(release, path.parent / "out") is not None or release.lora is None


@pytest.mark.parametrize(
    ("name", "moved"),
    [("publish.lfs-written", 0), ("publish.commit-written", 0), ("publish.smoke-loaded", 0), ("publish.head-moved", 1)],
)
def test_killed_at_a_named_point(tmp_path: Path, name: str, moved: int) -> None:
    path = tmp_path / "versions.git"
    Repository(path).publish(draft(tree(rules="- first")), None)
    process = start(path, tmp_path / "jobs", 1, name)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (-9, "")
    repository = Repository(path)
    assert len(repository.chain("default")) == 1 + moved
    check(path, [])
    head = repository.head("default")
    assert head is not None
    following = repository.publish(draft(tree(rules="- next"), lora_folder(tmp_path / "next")), head.id)
    assert following.manifest.parent_release_id == head.id
    assert (path / "refs" / "heads" / "default").read_text().strip() == following.commit_id


def test_killed_anywhere(tmp_path: Path) -> None:
    path, printed = tmp_path / "versions.git", list[str]()
    chance = random.Random(3)
    for number in range(6):
        process = start(path, tmp_path / f"jobs{number}", 10_000)
        assert process.stdout is not None
        printed.append(process.stdout.readline().strip())
        time.sleep(chance.uniform(0, 0.2))
        process.kill()
        printed += [line.strip() for line in process.stdout if line.endswith("\n")]
        process.wait()
        process.stdout.close()
    check(path, printed)


def test_a_lock_that_a_killed_writer_left_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.versions.refs._FOREIGN_GIT_S", 0.1)
    path = tmp_path / "versions.git"
    repository = Repository(path)
    repository.publish(draft(), None)
    (path / "refs/reef/scenarios/default/head.lock").write_text("")
    (path / "refs/heads/default.lock").write_text("")
    (path / "lfs/tmp/reef-0123").write_text("half")
    assert repository.publish(draft(tree(rules="x")), "r1").id == "r2"
    Repository(path)
    assert not (path / "lfs/tmp/reef-0123").exists()
