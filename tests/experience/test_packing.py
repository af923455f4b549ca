"""Bytes that an earlier Reef packed are read by every later one."""

from __future__ import annotations

import hashlib

import pytest
import zstandard

from daemon.errors import DataError
from daemon.experience.packing import pack, unpack
from daemon.experience.phrases import PHRASES

_BODY = b'{"role":"assistant","content":null,"tool_calls":[{"id":"call_7","type":"function","function":{"name":"ls","arguments":"{}"}}]}'


def test_what_was_packed_before_there_was_a_dictionary_is_read() -> None:
    assert unpack(b"\x01" + zstandard.ZstdCompressor(level=3).compress(_BODY * 9)) == _BODY * 9
    assert unpack(b"\x00" + _BODY) == _BODY


def test_the_dictionary_is_the_one_that_stored_bytes_were_packed_with() -> None:
    assert hashlib.sha256(PHRASES).hexdigest() == "69f27080029633f6f3040564a4aa26e31a698b68fd6ab37eaaa09ba944c34f21"
    assert unpack(bytes.fromhex("0228b52ffd207ef5000048376c737d227d7d5d7d06003f8be09c950cb48d7d2d1e527305e28a0504")) == _BODY


def test_a_short_body_shrinks_by_more_than_half() -> None:
    assert unpack(pack(_BODY)) == _BODY
    assert len(pack(_BODY)) < len(_BODY) / 2


@pytest.mark.parametrize("damaged", [b"", b"\x07abc", b"\x01abc", b"\x02abc", pack(_BODY)[:-3]])
def test_damaged_bytes_are_said_to_be(damaged: bytes) -> None:
    with pytest.raises(DataError):
        unpack(damaged)
