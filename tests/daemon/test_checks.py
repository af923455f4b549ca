"""`reef fsck`: it finds what is gone, and it changes nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from daemon.checks import run_fsck
from daemon.errors import DataError
from daemon.paths import Home
from daemon.versions.repository import Repository
from tests.evolution.parts import parts


async def a_home(root: Path) -> Home:
    """With two releases, the second published by somebody who was killed soon after."""
    async with parts(root) as bench:
        await bench.publisher.publish(bench.draft("Be brief."), "r1")
    home = Home(root)
    (home.versions / "lfs" / "tmp").mkdir(parents=True, exist_ok=True)
    (home.versions / "lfs" / "tmp" / "reef-0123").write_text("half")
    (home.versions / "refs" / "heads" / "default").write_text("0" * 40 + "\n")
    return home


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.name.startswith("experience.db")}


async def test_it_names_what_a_killed_writer_left_and_leaves_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = await a_home(tmp_path / "home")
    before = files(home.root)
    assert run_fsck(home, json_output=False) == 0
    said = capsys.readouterr().out
    assert "note: " in said and "reef-0123" in said
    assert files(home.root) == before


async def test_releases_that_are_gone_altogether_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = await a_home(tmp_path / "home")
    shutil.rmtree(home.versions)
    assert run_fsck(home, json_output=False) == 1
    assert "The repository of releases is missing; the operation log names 2." in capsys.readouterr().out
    assert not home.versions.exists()
    home.versions.mkdir()
    with pytest.raises(DataError, match="no git repository"):
        run_fsck(home, json_output=False)


@pytest.mark.timeout(20)
def test_a_source_that_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    Repository(home.versions).close()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="neither a backup nor a clone"):
        run_fsck(home, json_output=False, repair=True, source=tmp_path / "pipe")
