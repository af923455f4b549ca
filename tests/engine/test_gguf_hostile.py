"""Model files that lie about themselves: each is refused with a sentence, quickly, and before any native code sees it."""

from __future__ import annotations

import io
import os
import struct
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.errors import DataError
from daemon.gguf import _Bad, _Reader, read_header

TEXT, ARRAY, UINT32 = 8, 9, 4
F32, Q4_0 = 0, 2


def text(value: bytes, claimed: int | None = None) -> bytes:
    return struct.pack("<Q", len(value) if claimed is None else claimed) + value


def entry(key: bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: bytes, shape: tuple[int, ...], kind: int = F32, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


ARCHITECTURE = entry(b"general.architecture", TEXT, text(b"llama"))


def file(
    entries: tuple[bytes, ...] = (),
    tensors: tuple[bytes, ...] = (),
    data: int = 0,
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A whole file; without further arguments one that is in order."""
    claimed = counts or (len(tensors), len(entries) + 1)
    head = b"GGUF" + struct.pack("<IQQ", version, *claimed) + ARCHITECTURE + b"".join(entries) + b"".join(tensors)
    return head + bytes(-len(head) % 32 + data)


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    began = time.monotonic()
    with pytest.raises(DataError) as caught:
        read_header(path)
    assert time.monotonic() - began < 1
    assert caught.value.hint
    return caught.value.message


def test_the_plain_file_is_in_order(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(file((), (tensor(b"a", (8, 4)), tensor(b"b", (64,), Q4_0, 128)), 192))
    assert [found.size_bytes for found in read_header(path).tensors] == [128, 36]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"GGUF", "does not begin"),
        (b"GGML" + bytes(100), "does not begin"),
        (file(version=0x03000000), "big-endian"),
        (file(version=1), "version is 1"),
        (file(counts=(2**63, 1)), "tensors"),
        (file(counts=(0, 2**63)), "metadata entries"),
        (file(counts=(0, 500)), "twice"),
        (file((ARCHITECTURE,)), "general.architecture twice"),
        (file((entry(b"x", TEXT, text(b"", 2**40)),)), "bytes of text"),
        (file((entry(b"x", TEXT, text(b"", 4096)),)), "ends in the middle"),
        (file((entry(b"x" * 2000, UINT32, bytes(4)),)), "bytes of text"),
        (file((entry(b"x", 77, bytes(4)),)), "unknown type 77"),
        (file((entry(b"x", ARRAY, struct.pack("<IQ", ARRAY, 1)),)), "unsupported type"),
        (file((entry(b"x", ARRAY, struct.pack("<IQ", UINT32, 2**40)),)), "entries in a list"),
        (file((entry(b"x", ARRAY, struct.pack("<IQ", UINT32, 2**23)),)), "ends in the middle"),
        (file((entry(b"x", ARRAY, struct.pack("<IQ", TEXT, 2**23)),)), "hold more than"),
        (file((entry(b"general.alignment", UINT32, struct.pack("<I", 33)),)), "alignment"),
        (file((entry(b"general.alignment", UINT32, struct.pack("<I", 0)),)), "alignment"),
        (file((), (tensor(b"a", (2**39,) * 4),)), "beyond its end"),
        (file((), (tensor(b"a", (2**63,)),)), "elements in a row"),
        (file((), (tensor(b"a", (1,) * 5),)), "dimensions"),
        (file((), (tensor(b"a", ()),)), "impossible shape"),
        (file((), (tensor(b"a", (0, 4)),)), "impossible shape"),
        (file((), (tensor(b"", (4,)),), 32), "impossible shape"),
        (file((), (tensor(b"a", (33,), Q4_0),), 64), "impossible shape"),
        (file((), (tensor(b"a", (4,), 31),), 64), "unknown type 31"),
        (file((), (tensor(b"n" * 64, (4,)),), 64), "bytes of text"),
        (file((), (tensor(b"a", (4,), F32, 8),), 64), "odd place"),
        (file((), (tensor(b"a", (4,), F32, 2**64 - 32),), 64), "beyond its end"),
        (file((), (tensor(b"a", (16,)), tensor(b"a", (16,), F32, 64)), 128), "the same name"),
        (file((), (tensor(b"a", (16,)), tensor(b"b", (16,), F32, 32)), 128), "lies on another"),
        (file((entry(b"tokenizer.chat_template", TEXT, text(b"x" * (2 << 20))),)), "chat template"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in refused(tmp_path / "m.gguf", content)


def test_a_header_of_text_alone_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    one = 15 << 20
    with path.open("wb") as stream:  # a sparse file: a real one would be downloaded
        stream.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 20) + ARCHITECTURE)
        for number in range(19):
            stream.write(text(b"k%d" % number) + struct.pack("<IQ", TEXT, one))
            stream.seek(one, os.SEEK_CUR)
        stream.truncate()
    with pytest.raises(DataError, match="MiB of text"):
        read_header(path)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    for path in (tmp_path / "pipe.gguf", tmp_path / "loop.gguf", Path("/dev/zero"), tmp_path):
        with pytest.raises(DataError):
            read_header(path)


def test_a_file_that_shrinks_meanwhile_is_cut_short() -> None:
    with pytest.raises(_Bad, match="cut short"):
        _Reader(io.BytesIO(b"GG"), 100).take(4)


def test_a_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(file((entry(b"general.name", TEXT, text(b"\x1b]0;owned\x07" + b"A" * 999)),)))
    name = read_header(path).name
    assert name.isprintable() and len(name) == 200
    assert "\x1b" not in refused(path, file((), (tensor(b"\x1b[2J", (4,), 31),), 64))


NUMBERS = st.one_of(st.integers(0, 70), st.sampled_from([2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]))
SMALL = st.integers(0, 2**32 - 1)
ENTRIES = st.builds(lambda key, kind, value: entry(key, kind, value), st.binary(max_size=6), st.integers(0, 14), st.binary(max_size=24))
TENSORS = st.builds(
    lambda name, shape, kind, offset: tensor(name, tuple(shape), kind, offset),
    st.binary(max_size=3), st.lists(NUMBERS, max_size=5), st.integers(0, 44), NUMBERS,
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entries=st.lists(ENTRIES, max_size=3),
    tensors=st.lists(TENSORS, max_size=3),
    data=st.integers(0, 400),
    lie=st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS)),
)
def test_whatever_a_file_says_it_is_read_within_bounds_or_refused(
    tmp_path: Path, entries: list[bytes], tensors: list[bytes], data: int, lie: tuple[int, int] | None
) -> None:
    path = tmp_path / "m.gguf"
    content = file(tuple(entries), tuple(tensors), data, counts=lie)
    path.write_bytes(content)
    try:
        header = read_header(path)
    except DataError as error:
        assert error.message and error.hint
        return
    end = 0
    for found in sorted(header.tensors, key=lambda one: one.offset):
        assert end <= found.offset and found.offset + found.size_bytes <= len(content)
        end = found.offset + found.size_bytes
