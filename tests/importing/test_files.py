"""Whatever lies in a file or a folder, reading ends, names what it leaves out, and goes on with the rest."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import pytest

from daemon.errors import NotFound
from daemon.importing import files
from daemon.importing.conversation import ImportedSession
from daemon.importing.files import Skipped
from daemon.importing.source import read
from daemon.records import JSON


def line(text: str) -> str:
    return json.dumps({"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]}) + "\n"


def asked(*paths: Path, piped: bytes | None = None) -> tuple[list[JSON], list[Skipped]]:
    """What was asked in each session that is read, and what is left out."""
    found: list[JSON] = []
    skipped: list[Skipped] = []
    for item in read(paths, None if piped is None else io.BytesIO(piped), lambda _: None):
        if isinstance(item, Skipped):
            skipped.append(item)
        else:
            assert isinstance(item[1], ImportedSession)
            found.append(item[1].turns[0].added[0]["content"])
    return found, skipped


def test_a_bad_line_is_named_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 4096)
    source = tmp_path / "mixed.jsonl"
    parts = [
        b"\xef\xbb\xbf" + line("first").encode(),
        b"no json\n",
        b"\n",
        b'{"messages": "\xff\xfe"}\n',
        b"\0\0\0\n",
        b"[" * 3000 + b"\n",
        b'{"a": ' + b"1" * 8000 + b"}\n",
        b'{"n": 1e999}\n',
        line("second").encode(),
        b'{"cut": ',
    ]
    source.write_bytes(b"".join(parts))
    found, skipped = asked(source)
    assert found == ["first", "second"]
    assert [item.where.rpartition(":")[2] for item in skipped] == ["2", "4", "5", "6", "7", "8", "10"]
    reasons = " ".join(item.reason for item in skipped)
    for part in ("not valid JSON", "not UTF-8", "nested deeper", "longer than", "too large a number"):
        assert part in reasons, reasons


def test_a_line_of_too_many_values_is_left_out_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MAX_BRACKETS", 100)
    source = tmp_path / "bomb.jsonl"
    source.write_text("[" + "[]," * 200 + "[]]\n" + line("after"))
    found, [skipped] = asked(source)
    assert found == ["after"] and "arrays and objects" in skipped.reason


def test_documents_lines_and_pipes_are_read_alike(tmp_path: Path) -> None:
    values = [json.loads(line(text)) for text in ("a", "b")]
    (tmp_path / "array.json").write_text(json.dumps(values, indent=1))
    (tmp_path / "one.json").write_text(json.dumps(values[0], indent=1))
    (tmp_path / "lines.json").write_text(line("c") + line("d"))
    (tmp_path / "broken.json").write_text(json.dumps(values[0], indent=1)[:-9])
    found, [skipped] = asked(tmp_path, piped=line("piped").encode())
    assert found == ["piped", "a", "b", "c", "d", "a"]
    assert skipped.where.endswith("broken.json")


def test_a_folder_gives_its_files_and_nothing_that_it_only_points_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_text(line("outside"))
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "in.jsonl").write_text(line("in"))
    (folder / "notes.txt").write_text(line("text"))
    (folder / "link.jsonl").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.jsonl")
    assert asked(folder) == (["in"], [])
    found, [skipped] = asked(folder / "pipe.jsonl")  # named by itself: it would wait for ever
    assert found == [] and skipped.reason == "not a regular file"
    with pytest.raises(NotFound):
        asked(tmp_path / "absent.jsonl")


def test_packed_files_are_not_unpacked(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.json"):
        (tmp_path / name).write_bytes(gzip.compress(b"0" * 10_000_000))
    found, skipped = asked(tmp_path)
    assert found == [] and [item.reason for item in skipped] == ["compressed; unpack it first"] * 2


def test_a_folder_of_endless_files_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 3)
    for number in range(6):
        (tmp_path / f"{number}.jsonl").write_text(line(str(number)))
    found, [skipped] = asked(tmp_path)
    assert found == ["0", "1", "2"] and "more than 3 files" in skipped.reason


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    source = tmp_path / "closed.jsonl"
    source.write_text(line("x"))
    source.chmod(0)
    found, [skipped] = asked(source)
    assert found == [] and "cannot be read" in skipped.reason
