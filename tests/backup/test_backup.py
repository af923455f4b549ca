"""A backup that is made while the daemon answers comes back whole; a hostile or broken one changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest
import zstandard

from daemon.backup.archive import MANIFEST, allowed, verify
from daemon.backup.make import make
from daemon.backup.restore import finish, restore
from daemon.checks import run_fsck
from daemon.errors import Conflict, NotFound, ReefError, StorageError
from daemon.experience import writer
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.failpoints import RESTORE_FAILPOINTS
from daemon.harness_tree import HarnessTree
from daemon.instance import Instance
from daemon.paths import Home
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from tests.daemon.running import running
from tests.experience.make import inference, user
from tests.versions.parts import lora_folder


def _quiet(what: str, done: int, whole: int) -> None:
    assert what and done >= 0 and whole >= 0


def _home(root: Path, text: str = "hello") -> Home:
    """A home with one record."""
    home = Home(root)
    root.mkdir(parents=True)
    store = Store.open(home.database)
    store.append(inference([user(text)])).result(10)
    store.close()
    home.config.write_text("learn: {mode: manual}\n")
    return home


def _texts(home: Home) -> list[str]:
    reader = Reader(home.database)
    try:
        return [summary.title for summary in reader.sessions()]
    finally:
        reader.close()


def test_what_a_killed_daemon_left_in_the_journal_is_backed_up_and_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_PAUSE_S", 60.0)
    running_home = _home(tmp_path / "running", "in the tables")
    store = Store.open(running_home.database)
    store.append(inference([user("in the journal")], session="later")).result(10)
    killed = Home(tmp_path / "killed")
    shutil.copytree(running_home.root, killed.root)
    store.close()
    backup = make(killed, tmp_path / "b.tar.zst", _quiet)
    other = _home(tmp_path / "other", "something else")
    store = Store.open(other.database)
    store.append(inference([user("and more of it")], session="later")).result(10)
    target = Home(tmp_path / "target")
    shutil.copytree(other.root, target.root)
    store.close()
    aside = restore(target, backup.path, _quiet, force=True).aside
    Store.open(target.database).close()
    assert sorted(_texts(target)) == ["in the journal", "in the tables"], "and nothing of what was there"
    assert aside is not None and b"and more of it" in (aside / "experience.journal").read_bytes()


async def test_what_is_backed_up_while_the_daemon_answers_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "home"
    async with running(root) as daemon:
        services = daemon.services
        receipts = [(await daemon.chat(f"question {number}")).headers["x-reef-agent-record-id"] for number in range(5)]
        (root / "config.yaml").write_text("learn: {mode: manual}\n")
        task = root / "tasks" / "default" / "one.yaml"
        task.parent.mkdir(parents=True)
        task.write_text("prompt: hello\n")
        head = services.repository.head("default")
        assert head is not None
        tree = HarnessTree({"AGENTS.md": "- be kind\n"})
        draft = Draft("default", Operation.TRAINING, head.manifest.base, harness=tree, lora_folder=lora_folder(tmp_path / "l"))
        release = await services.publisher.publish(draft, head.id)
        asking = [asyncio.create_task(daemon.chat(f"meanwhile {number}")) for number in range(20)]
        made = await asyncio.to_thread(make, services.home, tmp_path, _quiet)
        assert {answer.status_code for answer in await asyncio.gather(*asking)} == {200}
        tokens = services.home.client_token.read_text().strip(), services.home.owner_token.read_text().strip()
    assert made.path.stat().st_mode & 0o777 == 0o600 and made.path.parent == tmp_path
    data = zstandard.ZstdDecompressor().decompressobj().decompress(made.path.read_bytes())
    assert not any(token.encode() in data for token in tokens), "tokens stay at home"
    assert not list(root.glob(".backup-*.tmp")) and verify(made.path, _quiet) == made.manifest
    target = Home(tmp_path / "other")
    done = restore(target, made.path, _quiet, force=False)
    assert done.aside is None and run_fsck(target, json_output=False) == 0, capsys.readouterr().out
    assert task.read_text() == (target.tasks / "default/one.yaml").read_text()
    async with running(target.root) as daemon:
        services = daemon.services
        assert [services.reader.inference(receipt).id for receipt in receipts] == receipts
        again = services.repository.head("default")
        assert again is not None and again.id == release.id and again.tree == tree and again.lora == release.lora
        assert (await daemon.chat("and on")).status_code == 200
        assert target.client_token.read_text().strip() not in tokens


def test_a_home_with_experience_is_only_replaced_when_asked_and_kept_aside(tmp_path: Path) -> None:
    old, new = _home(tmp_path / "a", "from the backup"), _home(tmp_path / "b", "what was there")
    path = make(old, tmp_path / "x.tar.zst", _quiet).path
    with pytest.raises(Conflict, match="already"):
        restore(new, path, _quiet, force=False)
    with pytest.raises(Conflict, match="there already"):
        make(old, path, _quiet)
    with Instance(new), pytest.raises(Conflict, match="daemon already runs"):
        restore(new, path, _quiet, force=True)
    assert _texts(new) == ["what was there"]
    done = restore(new, path, _quiet, force=True)
    assert _texts(new) == ["from the backup"] and done.aside is not None
    assert _texts(Home(done.aside)) == ["what was there"], "what was there can be taken back"
    with pytest.raises(NotFound):
        make(Home(tmp_path / "nothing"), None, _quiet)


def _archive(path: Path, files: Mapping[str, bytes], manifest: object = None, kind: bytes = tarfile.REGTYPE) -> Path:
    """A made-up backup."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = (len(data), kind, "/etc/passwd")
            tar.addfile(info, io.BytesIO(data) if kind == tarfile.REGTYPE else None)
        text = json.dumps(manifest).encode()
        if manifest is not None:
            info = tarfile.TarInfo(MANIFEST)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    path.write_bytes(zstandard.ZstdCompressor().compress(plain.getvalue()))
    return path


FACTS = {"format": 1, "version": "0", "created_at": 0.0, "schema_version": 0, "files": {}}


@pytest.mark.parametrize(
    "name",
    (
        *("../evil", "/etc/evil", "tasks/../../evil", "tasks//x", "versions.git/config", "versions.git/hooks/post-update", "tokens/owner"),
        *("a\\b", "experience.db/x", "tasks/a\0b", "versions.git/refs/../../x", "logs/daemon.log", "looks/../x.jsonl"),
    ),
)
def test_no_other_name_comes_out_of_a_backup(tmp_path: Path, name: str) -> None:
    assert not allowed(name)
    if "\0" not in name:
        _refused(tmp_path, _archive(tmp_path / "x", {name: b"x"}, FACTS))


def _refused(tmp_path: Path, path: Path) -> str:
    home = Home(tmp_path / "home")
    with pytest.raises(ReefError) as error:
        restore(home, path, _quiet, force=False)
    left = {str(found.relative_to(tmp_path)) for found in tmp_path.rglob("*") if found.is_file()} - {path.name}
    assert left <= {"home/daemon.lock"}, left
    return str(error.value)


def test_links_cut_off_and_altered_backups_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    made = make(_home(tmp_path / "a"), tmp_path / "good", _quiet).path
    whole = made.read_bytes()
    place = tmp_path / "place"
    place.mkdir()
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        assert "which no backup" in _refused(place, _archive(place / "x", {"tasks/one": b""}, FACTS, kind))
    assert "no manifest" in _refused(place, _archive(place / "x", {"config.yaml": b"x"}))
    assert "config.yaml is not what" in _refused(place, _archive(place / "x", {"config.yaml": b"x"}, FACTS))
    assert "newer Reef" in _refused(place, _archive(place / "x", {}, {**FACTS, "format": 2}))
    assert "manifest" in _refused(place, _archive(place / "x", {}, {"format": "?"}))
    for length in (0, 10, len(whole) // 2, len(whole) - len(whole) // 4):
        (place / "x").write_bytes(whole[:length])
        assert "no whole backup" in (text := _refused(place, place / "x")) or "manifest" in text
    for at in range(40, len(whole), len(whole) // 4):
        altered = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        if _content(altered) != _content(whole):  # here and there a bit of a compressed file means nothing
            (place / "x").write_bytes(altered)
            _refused(place, place / "x")


@pytest.mark.parametrize(
    "kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.GNUTYPE_SPARSE]
)
def test_a_header_that_asks_for_gigabytes_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("tasks/one")
    header.type, header.size = kind, 1 << 28
    packer = zstandard.ZstdCompressor().compressobj()
    blocks = [packer.compress(header.tobuf(tarfile.GNU_FORMAT)), *(packer.compress(bytes(1 << 20)) for _ in range(64)), packer.flush()]
    (tmp_path / "x").write_bytes(b"".join(blocks))
    tracemalloc.start()
    try:
        assert "no backup of Reef has" in _refused(tmp_path, tmp_path / "x")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def _content(packed: bytes) -> bytes | None:
    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    except zstandard.ZstdError:
        return None


def test_a_database_of_a_newer_reef_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    for data, why in ((b"no database at all" * 100, "cannot be read"), (_newer(tmp_path), "Update Reef")):
        files = {"experience.db": {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}}
        assert why in _refused(place, _archive(place / "x", {"experience.db": data}, {**FACTS, "files": files}))


def _newer(tmp_path: Path) -> bytes:
    connection = sqlite3.connect(tmp_path / "newer.db")
    connection.execute("PRAGMA user_version = 9999")
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    return (tmp_path / "newer.db").read_bytes()


@pytest.mark.e2e
@pytest.mark.parametrize("point", RESTORE_FAILPOINTS)
def test_a_restore_that_is_killed_is_finished_by_the_next_start(tmp_path: Path, point: str) -> None:
    path = make(_home(tmp_path / "a", "from the backup"), tmp_path / "x.tar.zst", _quiet).path
    home = _home(tmp_path / "b", "what was there")
    command = [sys.executable, "-P", "-m", "daemon", "restore", "--home", str(home.root), str(path), "--force"]
    killed = subprocess.run(command, env={**os.environ, "REEF_FAILPOINT": point}, capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    with Instance(home):
        finish(home)
        finish(home)
    aside = next(home.root.glob("before-restore-*"))
    assert _texts(home) == ["from the backup"] and _texts(Home(aside)) == ["what was there"]
    assert not list(home.root.glob(".restore-*.tmp"))


def test_what_a_killed_backup_left_goes_with_the_next(tmp_path: Path) -> None:
    home = _home(tmp_path / "a")
    left = home.root / ".backup-0123456789ab.tmp"
    left.mkdir()
    (left / "experience.db").write_bytes(b"half")
    make(home, tmp_path / "x", _quiet)
    assert not left.exists() and [found.name for found in tmp_path.iterdir() if found.is_file()] == ["x"]


def test_a_file_system_without_links_takes_a_backup_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    home = _home(tmp_path / "a")
    monkeypatch.setattr("os.link", none)
    made = make(home, tmp_path / "x", _quiet)
    assert verify(made.path, _quiet) == made.manifest and sorted(found.name for found in tmp_path.iterdir()) == ["a", "x"]


def test_a_full_disk_leaves_nothing_of_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _home(tmp_path / "a")
    before = {found.name for found in home.root.iterdir()} | {".backup.lock"}

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("daemon.backup.archive.ArchiveWriter.add", full)
    with pytest.raises(StorageError, match="No space left"):
        make(home, tmp_path / "x", _quiet)
    assert [found.name for found in tmp_path.iterdir()] == ["a"] and {
        found.name for found in home.root.iterdir() if "-" not in found.name
    } == before
