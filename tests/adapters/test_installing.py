"""An agent's files are laid down whole or not at all, and nothing of a person's is replaced or followed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.errors import Conflict, DataError, StorageError
from daemon.harness import installing
from daemon.harness.installed import Binding, Manifest
from daemon.harness.installing import Content, held

BINDING = Binding(base_url="", scenario="pi", model_id="small", context_tokens=8192, max_tokens=1)
MANIFEST = Manifest(adapter="pi", version="1", command=(), release_id="r1", content_id="", binding=BINDING)


def lay(home: Path, files: dict[str, str], **more: tuple[str, ...]) -> None:
    with held(home) as place:
        manifest = MANIFEST.model_copy(update={"shared": more.get("shared", ())})
        place.lay_down({path: Content(text) for path, text in files.items()}, manifest, more.get("replace", ()))


def texts(home: Path) -> dict[str, str]:
    return {path.relative_to(home).as_posix(): path.read_text() for path in home.rglob("*") if path.is_file()}


def test_a_second_installation_removes_what_the_first_wrote_beside_it_and_an_uninstall_the_rest(tmp_path: Path) -> None:
    home = tmp_path / "pi"
    lay(home, {"agent/AGENTS.md": "a", "agent/skills/lint/SKILL.md": "b"})
    lay(home, {"agent/AGENTS.md": "c"})
    assert texts(home).keys() == {"agent/AGENTS.md", "installed.json"} and not (home / "agent" / "skills").exists()
    assert (home / "agent" / "AGENTS.md").stat().st_mode & 0o777 == 0o600
    with held(home) as place:
        place.take_away({})
    assert not home.exists()


def test_what_a_person_changed_or_put_there_stays_until_it_is_safe_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "pi"
    lay(home, {"agent/AGENTS.md": "a"})
    (home / "agent" / "AGENTS.md").write_text("mine")
    (home / "agent" / "SYSTEM.md").write_text("also mine")
    for files in ({"agent/AGENTS.md": "b"}, {"agent/AGENTS.md": "a", "agent/SYSTEM.md": "b"}):
        with pytest.raises(Conflict, match="not as Reef wrote it"):
            lay(home, files)
    assert texts(home)["agent/AGENTS.md"] == "mine" and texts(home)["agent/SYSTEM.md"] == "also mine"
    lay(home, {"agent/AGENTS.md": "b"}, replace=("agent/AGENTS.md",))
    assert texts(home)["agent/AGENTS.md"] == "b"
    (home / "agent" / "AGENTS.md").write_text("mine again")
    lay(home, {"agent/other.md": "x"})
    assert texts(home)["agent/AGENTS.md"] == "mine again", "it is no longer ours to remove"


@pytest.mark.parametrize("link", ["agent", "agent/skills", "agent/skills/lint.md"])
def test_a_link_is_never_followed(tmp_path: Path, link: str) -> None:
    home, outside = tmp_path / "pi", tmp_path / "outside"
    outside.mkdir()
    (outside / "lint.md").write_text("theirs")
    place = home / link
    place.parent.mkdir(parents=True)
    place.symlink_to(outside if not link.endswith(".md") else outside / "lint.md")
    with pytest.raises(Conflict, match="link"):
        lay(home, {"agent/skills/lint.md": "ours"})
    assert texts(outside) == {"lint.md": "theirs"} and place.is_symlink()
    with held(home) as opened, pytest.raises(DataError, match="link"):
        opened.current(["skills/"] if link != "agent" else ["skills/", "lint.md"])
        opened.present("lint.md")  # behind a link that is a folder


@pytest.mark.parametrize("path", ["../out", "/etc/out", "agent/../../out", "agent//x", "agent/x\0y"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(DataError):
        lay(tmp_path / "pi", {"agent/AGENTS.md": "a", path: "b"})
    assert not (tmp_path / "pi").exists()


def test_what_cannot_be_read_as_a_harness_is_named(tmp_path: Path) -> None:
    skills = tmp_path / "pi" / "agent" / "skills"
    skills.mkdir(parents=True)
    with held(tmp_path / "pi") as place:
        (skills / "x.md").write_bytes(b"a\xff")
        with pytest.raises(DataError, match=r"x\.md is not valid UTF-8"):
            place.current(["skills/"])
        (skills / "x.md").write_bytes(b"a" * (50 << 20))
        with pytest.raises(DataError, match=r"x\.md is larger"):
            place.current(["skills/"])
        (skills / "x.md").unlink()
        os.mkfifo(skills / "pipe")
        with pytest.raises(DataError, match="no plain file"):
            place.current(["skills/"])
        (skills / "pipe").unlink()
        for number in range(2001):
            (skills / f"{number}.md").touch()
        with pytest.raises(DataError, match="more than 2000"):
            place.current(["skills/"])


def test_the_second_of_two_installations_is_told_and_a_file_in_the_way_is_too(tmp_path: Path) -> None:
    with held(tmp_path / "pi"), pytest.raises(Conflict, match="Another installation"), held(tmp_path / "pi"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(StorageError), held(tmp_path / "file"):
        pass


SCRIPT = """
import sys
from collections.abc import Callable
from pathlib import Path
from tests.adapters.test_installing import lay
lay(Path(sys.argv[1]), {"agent/AGENTS.md": "new", "agent/SYSTEM.md": "new"})
"""


@pytest.mark.parametrize(
    ("failpoint", "whole"),
    [("install.staged", "old"), ("install.journal-written", "new"), ("install.put-one", "new"), ("install.written", "new")],
)
def test_killed_at_any_point_the_old_files_or_the_new_ones_are_there_in_the_end(tmp_path: Path, failpoint: str, whole: str) -> None:
    home = tmp_path / "pi"
    lay(home, {"agent/AGENTS.md": "old", "agent/skills/gone.md": "old"})
    killed = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(home)],
        env={**os.environ, "REEF_FAILPOINT": failpoint},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert killed.returncode == -9
    with held(home):
        pass
    found = texts(home)
    found.pop("installed.json")
    old = {"agent/AGENTS.md": "old", "agent/skills/gone.md": "old"}
    assert found == (old if whole == "old" else {"agent/AGENTS.md": "new", "agent/SYSTEM.md": "new"})


def _late(monkeypatch: pytest.MonkeyPatch, point: str, act: Callable[[], object]) -> None:
    """Let `act` happen once, at the failpoint."""
    waiting = [act]

    def reached(name: str) -> None:
        if name == point and waiting:
            waiting.pop()()

    monkeypatch.setattr(installing, "failpoint", reached)


@pytest.mark.parametrize("point", ["install.staged", "install.journal-written", "install.put-one"])
def test_what_is_changed_in_the_midst_of_an_installation_stays_and_counts_as_changed_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    home = tmp_path / "pi"
    lay(home, {"agent/A.md": "old", "agent/Z.md": "old", "agent/gone.md": "old"})

    def edit() -> None:
        for name in ("Z.md", "gone.md", "new.md"):
            (home / "agent" / name).write_text("mine")

    _late(monkeypatch, point, edit)
    lay(home, {"agent/A.md": "new", "agent/Z.md": "new", "agent/new.md": "new"})
    assert {path: text for path, text in texts(home).items() if path != "installed.json"} == {
        "agent/A.md": "new", "agent/Z.md": "mine", "agent/gone.md": "mine", "agent/new.md": "mine"
    }  # fmt: skip
    with pytest.raises(Conflict, match=r"Z\.md.*new\.md: not as Reef wrote it"):
        lay(home, {"agent/A.md": "newer", "agent/Z.md": "newer", "agent/new.md": "newer"})


def test_what_is_changed_between_a_crash_and_the_next_installation_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "pi"
    lay(home, {"agent/A.md": "old", "agent/gone.md": "old"})

    def die() -> None:
        raise KeyboardInterrupt

    _late(monkeypatch, "install.journal-written", die)
    with pytest.raises(KeyboardInterrupt):
        lay(home, {"agent/A.md": "new", "agent/B.md": "new"})
    (home / "agent/A.md").write_text("mine")
    (home / "agent/gone.md").write_text("mine")
    with held(home):
        pass
    found = texts(home)
    found.pop("installed.json")
    assert found == {"agent/A.md": "mine", "agent/B.md": "new", "agent/gone.md": "mine"}


def test_a_shared_file_that_the_agent_writes_in_the_midst_is_told_and_merged_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "pi"
    lay(home, {"agent/settings.json": "old"}, shared=("agent/settings.json",))
    _late(monkeypatch, "install.staged", lambda: (home / "agent/settings.json").write_text("the agent's"))
    with pytest.raises(Conflict, match=r"settings\.json: written by somebody else at the same moment"):
        lay(home, {"agent/settings.json": "new"}, shared=("agent/settings.json",))
    assert texts(home)["agent/settings.json"] == "the agent's"
    lay(home, {"agent/settings.json": "new"}, shared=("agent/settings.json",))
    assert texts(home)["agent/settings.json"] == "new"


@pytest.mark.parametrize("kind", ["file for a folder", "folder for a file", "pipe", "pipe for a folder"])
def test_whatever_is_in_the_way_is_named_before_anything_moves(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "pi"
    lay(home, {"agent/A.md": "old"})
    there = home / "agent" / ("A.md" if kind in ("pipe", "folder for a file") else "skills")
    there.unlink(missing_ok=True)
    if kind == "folder for a file":
        there.mkdir()
    elif "pipe" in kind:
        os.mkfifo(there)
    else:
        there.write_text("mine")
    before = texts(home) if kind == "file for a folder" else None
    for _ in range(2):  # nothing is left behind that the second would stumble over
        with pytest.raises(Conflict, match="Move it away"):
            lay(home, {"agent/A.md": "new", "agent/skills/x/SKILL.md": "new"})
    assert not (home / "journal.json").exists() and (before is None or texts(home) == before)


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"put": {"../../x": [0, "a", ""]}, "remove": {}, "manifest": ""}',
        b'{"put": {}, "remove": {"/etc/x": "a"}, "manifest": ""}',
        b'{"put": {"a": 5}, "remove": {}, "manifest": ""}',
    ],
    ids=["cut", "list", "bytes", "deep", "outside", "absolute", "number"],
)
def test_a_damaged_journal_is_named_and_touches_nothing(tmp_path: Path, text: bytes) -> None:
    home = tmp_path / "pi"
    lay(home, {"agent/A.md": "old"})
    (home / "journal.json").write_bytes(text)
    with pytest.raises(DataError, match=r"journal\.json cannot be read"):
        lay(home, {"agent/A.md": "new"})
    assert (home / "agent/A.md").read_text() == "old"
    (home / "journal.json").unlink()
    lay(home, {"agent/A.md": "new"})
