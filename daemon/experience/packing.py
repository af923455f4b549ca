"""Compact bytes: JSON that survives exactly, zstd where it pays, token ids and log-probabilities as arrays."""

from __future__ import annotations

import hashlib
import json
import struct
import threading
from array import array
from collections.abc import Sequence
from typing import cast

import orjson
import zstandard

from daemon.errors import DataError
from daemon.experience.phrases import PHRASES
from daemon.records import JSON, JSONObject

LARGE_BYTES = 512
"""A JSON value longer than this is stored once by content, whoever repeats it."""
BLOCK_TOKENS = 256
"""Token ids of a prompt are kept in blocks of this many, shared by every prompt that starts the same."""
HASH_BYTES = 16

_PLAIN, _WITHOUT, _WITH_PHRASES = b"\x00", b"\x01", b"\x02"  # as it is; zstd; zstd with a dictionary, as all is written now
_LEVEL = 4
_WORTH_BYTES = 48  # below this zstd's frame costs more than it saves
_MAX_BYTES = 256 << 20
_TRACE = struct.Struct("<BIII")
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_local = threading.local()  # zstd contexts must not be shared between threads


def to_json(value: JSON) -> bytes:
    """Compact UTF-8; key order is kept, lone surrogates (legal in JSON escapes) and integers of any size survive."""
    try:
        data: bytes = orjson.dumps(value)
    except TypeError:  # what orjson refuses
        data = b"null"
    if b"null" not in data:  # it may stand for an infinity
        return data
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def from_json(data: bytes) -> JSON:
    return cast(JSON, json.loads(data.decode("utf-8", "surrogatepass")))


def object_from_json(data: bytes) -> JSONObject:
    value = from_json(data)
    if not isinstance(value, dict):
        raise DataError("A stored value is not a JSON object.", "Run `reef fsck`.")
    return value


def digest(*parts: bytes) -> bytes:
    """BLAKE2b over the parts, 128 bits: content addresses inside one database."""
    return hashlib.blake2b(parts[0] if len(parts) == 1 else b"".join(parts), digest_size=HASH_BYTES).digest()


def pack(data: bytes) -> bytes:
    """One byte that names the codec, then the bytes, compressed if that is shorter. Hashes are taken before packing."""
    if len(data) >= _WORTH_BYTES:
        compressor = getattr(_local, "compressor", None)
        if compressor is None:
            compressor = _local.compressor = zstandard.ZstdCompressor(dict_data=_phrases(), level=_LEVEL, write_checksum=False)
        packed: bytes = compressor.compress(data)
        if len(packed) < len(data):
            return _WITH_PHRASES + packed
    return _PLAIN + data


def unpack(data: bytes) -> bytes:
    """The inverse of `pack`. Raises `DataError` for damaged bytes."""
    codec = data[:1]
    if codec == _PLAIN:
        return data[1:]
    if codec not in (_WITHOUT, _WITH_PHRASES):
        raise DataError("A stored value has an unknown encoding.", "Run `reef fsck`.")
    decompressors = getattr(_local, "decompressors", None)
    if decompressors is None:
        decompressors = _local.decompressors = {
            _WITHOUT: zstandard.ZstdDecompressor(),
            _WITH_PHRASES: zstandard.ZstdDecompressor(dict_data=_phrases()),
        }
    try:
        return cast(bytes, decompressors[codec].decompress(data[1:], max_output_size=_MAX_BYTES))
    except zstandard.ZstdError as error:
        raise DataError(f"A stored value is damaged: {error}.", "Run `reef fsck`.") from error


def _phrases() -> zstandard.ZstdCompressionDict:
    phrases = zstandard.ZstdCompressionDict(PHRASES, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    phrases.precompute_compress(level=_LEVEL)
    return phrases


def _code(tokens: Sequence[int]) -> str:
    return "H" if not tokens or max(tokens) < 1 << 16 else "I"


def token_bytes(tokens: Sequence[int]) -> bytes:
    """Token ids in 2 or 4 bytes each, the width in the first byte; not yet packed."""
    values = array(_code(tokens), tokens)
    return bytes([values.itemsize]) + values.tobytes()


def unpack_tokens(data: bytes) -> list[int]:
    plain = unpack(data)
    values = array("H" if plain[0] == 2 else "I")
    values.frombytes(plain[1:])
    return values.tolist()


def pack_trace(rest: Sequence[int], completion: Sequence[int], logprobs: Sequence[float]) -> bytes:
    """What of a trace is the inference's own: prompt ids after the last whole block, completion ids, log-probabilities (float32)."""
    code = _code((*rest, *completion))
    header = _TRACE.pack(array(code).itemsize, len(rest), len(completion), len(logprobs))
    return pack(header + array(code, rest).tobytes() + array(code, completion).tobytes() + array("f", logprobs).tobytes())


def unpack_trace(data: bytes) -> tuple[list[int], list[int], list[float]]:
    plain = unpack(data)
    if len(plain) < _TRACE.size:
        raise DataError("A stored token trace is damaged.", "Run `reef fsck`.")
    width, rest_count, completion_count, logprob_count = _TRACE.unpack_from(plain)
    ids_end = _TRACE.size + width * (rest_count + completion_count)
    if len(plain) != ids_end + 4 * logprob_count:
        raise DataError("A stored token trace is damaged.", "Run `reef fsck`.")
    ids = array("H" if width == 2 else "I")
    ids.frombytes(plain[_TRACE.size : ids_end])
    logprobs = array("f")
    logprobs.frombytes(plain[ids_end:])
    tokens = ids.tolist()
    return tokens[:rest_count], tokens[rest_count:], logprobs.tolist()
