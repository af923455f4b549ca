"""A history becomes pairs of a change and its message; nothing that the repository holds or configures is run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from pathlib import Path

import pytest

from daemon.errors import DataError
from daemon.importing import git_history
from daemon.importing.git_history import change_text, read_commits, sessions_of


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True).stdout


def commit(folder: Path, message: str, **files: str | bytes | None) -> None:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    many = "".join(f"line {number}\n" for number in range(50))
    commit(tmp_path, "Begin", a_py=many, b_py="x = 1\n")
    commit(tmp_path, "Change the twentieth line\n\nIt was wrong.\n\n", a_py=many.replace("line 20\n", "row 20\nrow 20.5\n"))
    commit(tmp_path, "Add a picture", p_png=b"\x89PNG\0\0\0")
    commit(tmp_path, "Move a file, and take one away", src__b_py="x = 2\n", b_py=None)
    return tmp_path


def test_messages_and_changes_come_oldest_first_and_pictures_are_no_text(repository: Path) -> None:
    change, moved = read_commits(repository / "src")  # from below its top, too
    assert change.message == "Change the twentieth line\n\nIt was wrong." and change.subject == "Change the twentieth line"
    [file] = change.files
    assert (file.path, file.added, file.removed) == ("a.py", 2, 1)
    assert file.lines == (
        "@@ -18,7 +18,8 @@",
        " line 17",
        " line 18",
        " line 19",
        "-line 20",
        "+row 20",
        "+row 20.5",
        " line 21",
        " line 22",
        " line 23",
    )
    assert {(file.path, file.added, file.removed) for file in moved.files} == {("b.py", 0, 1), ("src/b.py", 1, 0)}
    assert len(list(read_commits(repository, 1))) == 1


def test_the_lines_are_those_of_git_itself(repository: Path) -> None:
    [file] = next(iter(read_commits(repository))).files
    shown = git(repository, "show", "--format=", "HEAD~2").splitlines()
    assert list(file.lines[1:]) == shown[shown.index(next(text for text in shown if text.startswith("@@"))) + 1 :]


def test_a_pair_is_a_session_that_counts_as_good_and_holds_no_more_than_a_prompt_can(repository: Path) -> None:
    commit(repository, "Write a lot", long_txt="".join(f"{number} {'x' * 60}\n" for number in range(3000)))
    sessions = list(sessions_of(repository))
    turn = sessions[-1].turns[0]
    text = str(turn.added[0]["content"])
    assert turn.reply == {"role": "assistant", "content": "Write a lot"} and turn.score == 1
    assert text.startswith(f"{git_history.PROMPT}\n\nlong.txt (+3000 -0)\n") and len(text) < 10_000 and "more lines" in text
    assert sessions[0].id == f"git-{git(repository, 'rev-parse', 'HEAD~3').strip()}"


def test_nothing_that_a_repository_configures_is_run(repository: Path) -> None:
    ran = repository.with_name("ran")
    (repository / ".git" / "info" / "attributes").write_text("*.py diff=evil filter=evil\n")
    for key in ("diff.evil.textconv", "diff.external", "core.fsmonitor", "filter.evil.smudge", "filter.evil.clean"):
        git(repository, "config", key, f"touch {ran}; cat")
    ran.unlink(missing_ok=True)
    assert change_text(next(iter(read_commits(repository))))
    assert not ran.exists()


def test_what_is_no_whole_repository_is_refused(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(DataError, match="cannot be read"):
        list(read_commits(empty))
    git(empty, "init", "-q")
    with pytest.raises(DataError, match="cannot be read"):
        list(read_commits(empty))
    tree = git(repository, "rev-parse", "HEAD~2:a.py").strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(DataError, match="incomplete or damaged"):
        list(read_commits(repository))


@pytest.mark.parametrize(
    "commit",
    [
        b"",
        b"\xff" * 100,
        b"tree zzz\n",
        b"parent x\n\n",
        b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nm",
        b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a> 1e5 +0000\ncommitter a <a> x y\n\nm",
        b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nparent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
        b"author a <a> 1 +0\ncommitter a <a> 1 +0\n\nm",
    ],
)
def test_a_commit_that_git_never_wrote_is_told_in_a_sentence(repository: Path, commit: bytes) -> None:
    raw = b"commit %d\0" % len(commit) + commit
    name = hashlib.sha1(raw).hexdigest()
    place = repository / ".git/objects" / name[:2] / name[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(raw))
    (repository / ".git/HEAD").write_text(name)
    with pytest.raises(DataError, match="cannot be read"):
        list(read_commits(repository))


@pytest.mark.parametrize("name", ["HEAD", "config", "packed-refs"])
def test_a_pipe_among_the_files_of_git_is_not_waited_for(repository: Path, name: str) -> None:
    (repository / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(repository / ".git" / name)
    (repository / "below").mkdir()
    for folder in (repository, repository / "below"):
        with pytest.raises(DataError, match="no regular file"):
            list(read_commits(folder))


def test_references_that_go_in_a_circle_are_told_in_a_sentence(repository: Path) -> None:
    (repository / ".git/HEAD").write_text("ref: refs/heads/a\n")
    (repository / ".git/refs/heads/a").write_text("ref: refs/heads/b\n")
    (repository / ".git/refs/heads/b").write_text("ref: refs/heads/a\n")
    with pytest.raises(DataError, match="cannot be read"):
        list(read_commits(repository))


def test_an_object_that_asks_for_gigabytes_gets_none(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_history, "_MEMORY_BYTES", 32 << 20)
    blob = git(repository, "rev-parse", "HEAD~2:a.py").strip()
    packer = zlib.compressobj(1)
    data = packer.compress(b"blob 134217728\0")
    data += b"".join(packer.compress(b"\n" * (1 << 20)) for _ in range(128)) + packer.flush()
    path = repository / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(data)
    with pytest.raises(DataError, match="far too large"):
        list(read_commits(repository))
    assert bytearray(100 << 20)  # the bound ended with the reading
