"""A start on damaged releases mends what a copy in the home can mend, and says what to put back where none can."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from dulwich.objects import Commit, ObjectID
from dulwich.repo import Repo

from daemon.backup.make import make
from daemon.checks import run_fsck
from daemon.errors import Conflict, ReefError
from daemon.instance import Instance
from daemon.paths import Home
from daemon.serving.releases import base_facts
from daemon.versions.refs import head_ref
from daemon.versions.repository import Repository
from tests.daemon.running import Running, running
from tests.versions.parts import draft, lora_folder, tree


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """r1, and r2 with rules and a LoRA."""
    root = tmp_path_factory.mktemp("template")

    async def build() -> None:
        async with running(root / "home") as daemon:
            base = base_facts(daemon.services.engine.model)
            await daemon.services.publisher.publish(draft(tree(rules="- b"), lora_folder(root / "job"), base=base), "r1")

    asyncio.run(build())
    return root / "home"


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Home:
    """A home of its own for each test, and a copy of its releases at `copy`."""
    shutil.copytree(template, tmp_path / "home")
    shutil.copytree(template / "versions.git", tmp_path / "copy")
    return Home(tmp_path / "home")


def head_file(home: Home) -> Path:
    return home.versions / head_ref("default")


def weights(home: Home) -> Path:
    repository = Repository(home.versions, only_look=True)
    head = repository.head("default")
    assert head is not None
    return repository.weights.path_of(str(head.manifest.lora_id))


def rules(home: Home) -> Path:
    with Repo(str(home.versions)) as raw:
        commit = raw[head_file(home).read_text().strip().encode()]
        assert isinstance(commit, Commit)
        harness = raw[commit.tree][b"harness"][1]  # type: ignore[index]
        name = raw[harness][b"AGENTS.md"][1].decode()  # type: ignore[index]
    return home.versions / "objects" / name[:2] / name[2:]


def push_into_head(home: Home) -> None:
    with Repo(str(home.versions)) as raw:
        commit = raw[head_file(home).read_text().strip().encode()]
        assert isinstance(commit, Commit)
        commit.parents, commit.author, commit.message = [ObjectID(commit.id)], b"Mallory <m@example.org>", b"mine\n"
        raw.object_store.add_object(commit)
    head_file(home).write_text(commit.id.decode() + "\n")


async def serves(daemon: Running) -> str:
    answer = await daemon.chat("hello")
    return answer.headers["x-reef-release-id"] if answer.status_code == 200 else str(answer.json()["error"])


async def warnings(daemon: Running) -> str:
    return " ".join((await daemon.owner.get("/reef/status")).json()["warnings"])


MENDED: dict[str, tuple[Callable[[Home], object], str]] = {
    "an empty head": (lambda home: head_file(home).write_text(""), "The head is r2 now"),
    "no head": (lambda home: head_file(home).unlink(), "The head is r2 now"),
    "a head that leads nowhere": (lambda home: head_file(home).write_text("0" * 39 + "1\n"), "The head is r2 now"),
    "a commit that was pushed into the head": (push_into_head, "was not made by Reef"),
    "weights of which the engine's copy is left": (lambda home: weights(home).unlink(), "a copy in the home"),
}


@pytest.mark.parametrize("damage", MENDED)
async def test_a_start_mends_what_it_can_and_says_so(home: Home, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, sentence = MENDED[damage]
    spoil(home)
    async with running(home.root) as daemon:
        assert await serves(daemon) == "r2"
        assert sentence in await warnings(daemon)
    assert run_fsck(home, json_output=False) == 0, capsys.readouterr().out


@pytest.mark.parametrize("part", [rules, weights])
async def test_a_start_without_a_copy_says_what_is_lost_and_a_repair_brings_it_back(
    home: Home, tmp_path: Path, part: Callable[[Home], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    part(home).unlink()
    shutil.rmtree(home.loras)
    async with running(home.root) as daemon:
        assert "The scenario default does not serve" in await warnings(daemon)
        assert "missing" in await serves(daemon)
        with pytest.raises(Conflict, match="already runs"), Instance(home):
            run_fsck(home, json_output=False, repair=True)
    assert run_fsck(home, json_output=False) == 1
    assert run_fsck(home, json_output=False, repair=True, source=tmp_path / "copy") == 0
    assert "repaired: " in capsys.readouterr().out
    async with running(home.root) as daemon:
        assert await serves(daemon) == "r2" and await warnings(daemon) == ""


async def test_a_lost_head_is_no_scenario_that_begins_anew(home: Home) -> None:
    """Nothing is left to find it by: the log names releases, so no first release may take their place."""
    for left in (head_file(home), home.versions / "refs/heads/default"):
        left.unlink()
    shutil.rmtree(home.versions / "objects")
    (home.versions / "objects").mkdir()
    async with running(home.root) as daemon:
        assert "The head of default is missing" in await warnings(daemon) and "--repair" in await warnings(daemon)
        assert "The head of default is missing" in await serves(daemon)
    assert Repository(home.versions).scenarios() == []


async def test_a_manifest_of_a_newer_reef_stops_its_scenario_and_nothing_is_changed(home: Home) -> None:
    with Repo(str(home.versions)) as raw:
        commit = raw[head_file(home).read_text().strip().encode()]
        assert isinstance(commit, Commit)
        root = raw[commit.tree]
        newer = raw[root[b"release.json"][1]]  # type: ignore[index]
        newer.set_raw_string(newer.as_raw_string().replace(b'"schema_version": 1', b'"schema_version": 2'))
        root[b"release.json"] = (0o100644, newer.id)  # type: ignore[index]
        commit.tree = ObjectID(root.id)
        for one in (newer, root, commit):
            raw.object_store.add_object(one)
    head_file(home).write_text(commit.id.decode() + "\n")
    async with running(home.root) as daemon:
        assert "newer Reef" in await warnings(daemon) and "Update Reef" in await warnings(daemon)
        assert "newer Reef" in await serves(daemon)
    assert head_file(home).read_text().strip() == commit.id.decode()


def test_a_repair_takes_from_a_backup_what_is_missing(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make(home, tmp_path / "backup.tar.zst", lambda *_: None)
    lost = [weights(home), rules(home)]
    for file in lost:
        file.unlink()
    shutil.rmtree(home.loras)
    assert run_fsck(home, json_output=False, repair=True) == 1, "there is no copy in the home"
    capsys.readouterr()
    assert run_fsck(home, json_output=True, repair=True, source=made.path) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] and len(said["repaired"]) == 2 and all("the backup" in one["message"] for one in said["repaired"])
    assert all(file.is_file() for file in lost) and not list(home.root.glob(".repair.*"))


@pytest.mark.parametrize(("name", "message"), [("nothing", "There is no"), ("folder", "is no git repository"), ("file", "no whole backup")])
def test_a_source_that_is_none_is_refused(home: Home, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    with pytest.raises(ReefError, match=message):
        run_fsck(home, json_output=False, repair=True, source=tmp_path / name)
    assert not list(home.root.glob(".repair.*"))
