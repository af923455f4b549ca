"""Read the header of a GGUF file, bounded in every direction, before any native code sees the file.

Layout (little endian): magic `GGUF`, version, counts, key-value pairs, tensor descriptions, aligned data.
Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import os
import re
import stat
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from daemon.errors import DataError

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...]"

_MAX_ENTRIES = 1 << 16
_MAX_KEY_BYTES = 1 << 10
_MAX_TENSOR_NAME_BYTES = 63  # what llama.cpp has room for
_MAX_TEXT_BYTES = 16 << 20
_MAX_ARRAY = 1 << 24
_MAX_TEXTS = 1 << 22  # in all lists together; the largest vocabularies have a quarter of that
_MAX_KEPT_BYTES = 32 << 20  # of texts, in all
_MAX_TEMPLATE_BYTES = 1 << 20
_MAX_NAME = 200
_KEPT_ARRAY = 64  # longer ones (vocabularies) are checked and skipped
_ARCHITECTURE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _ARRAY = 8, 9

TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
    42: ("Q2_0", 64, 18),
}
"""Type number → name, elements a block, bytes a block."""

_FILE_TYPES = {
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    32: "BF16",
}
_HINT = "Download it again, or convert it with llama.cpp's own tools."


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    shape: tuple[int, ...]  # fastest dimension first, as GGUF writes it
    type: str
    offset: int  # from the beginning of the file
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    architecture: str
    name: str
    quantisation: str
    context_length: int  # 0: not said
    chat_template: str | None
    tensor_count: int
    parameters: int
    metadata: dict[str, Value]  # without arrays of more than 64 entries
    size_bytes: int
    tensors: tuple[Tensor, ...]

    def integer(self, key: str, default: int = 0) -> int:
        """A whole number from the metadata; for a list of them, the largest."""
        value = self.metadata.get(key, default)
        if isinstance(value, tuple):
            return max((item for item in value if isinstance(item, int)), default=default)
        return value if isinstance(value, int) else default

    def text(self, key: str, default: str = "") -> str:
        value = self.metadata.get(key, default)
        return value if isinstance(value, str) else default


class _Reader:
    """Takes bytes from a file and never more than it has, nor more than is sane in all."""

    def __init__(self, stream: BinaryIO, size_bytes: int) -> None:
        self._stream = stream
        self._size = size_bytes
        self._kept_bytes = 0
        self._texts = 0
        self.at = 0

    def take(self, count: int) -> bytes:
        if count > self._size - self.at:
            raise _Bad("it ends in the middle of its header")
        self.at += count
        data = self._stream.read(count)
        if len(data) != count:
            raise _Bad("it was cut short while it was read")
        return data

    def skip(self, count: int) -> None:
        if count > self._size - self.at:
            raise _Bad("it ends in the middle of its header")
        self.at += count
        self._stream.seek(self.at)

    def number(self, form: str) -> int | float | bool:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return value if isinstance(value, (int, float)) else 0

    def count(self, limit: int, what: str, form: str = "<Q") -> int:
        value = int(self.number(form))
        if value > limit:
            raise _Bad(f"it claims {value} {what}")
        return value

    def text(self, limit: int) -> str:
        length = self.count(limit, "bytes of text")
        self._kept_bytes += length
        if self._kept_bytes > _MAX_KEPT_BYTES:
            raise _Bad(f"its header holds more than {_MAX_KEPT_BYTES >> 20} MiB of text")
        return self.take(length).decode(errors="replace")

    def value(self, kind: int) -> Value | None:
        """One value; None for an array that is too long to keep."""
        if kind == _TEXT:
            return self.text(_MAX_TEXT_BYTES)
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise _Bad(f"it has a value of unknown type {kind}")
        return self.number(_SCALARS[kind])

    def _array(self) -> Value | None:
        kind = int(self.number("<I"))
        length = self.count(_MAX_ARRAY, "entries in a list")
        if kind == _ARRAY or (kind != _TEXT and kind not in _SCALARS):
            raise _Bad(f"it has a list of unsupported type {kind}")
        if kind == _TEXT:
            self._texts += length
            if self._texts > _MAX_TEXTS:
                raise _Bad(f"its lists hold more than {_MAX_TEXTS} texts")
        if length <= _KEPT_ARRAY:
            return tuple(item for item in (self.value(kind) for _ in range(length)) if item is not None)
        if kind == _TEXT:
            for _ in range(length):
                self.skip(self.count(_MAX_TEXT_BYTES, "bytes of text"))
        else:
            self.skip(length * struct.calcsize(_SCALARS[kind]))
        return None


class _Bad(Exception):
    """What is wrong with the file, as the end of a sentence."""


def read_header(path: Path) -> GGUFHeader:
    """Read and check a GGUF header. Every tensor must lie within the file, and none on another.

    Raises:
        DataError: the file cannot be read, or is no whole GGUF file of version 2 or 3.
    """
    try:
        with _open_regular(path) as stream:
            size_bytes = os.fstat(stream.fileno()).st_size
            return _read(_Reader(stream, size_bytes), size_bytes)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check the path and its permissions.") from error
    except _Bad as error:
        raise DataError(f"{path} is not a usable GGUF file: {error}.", _HINT) from error


def _open_regular(path: Path) -> BinaryIO:
    """A pipe would make us wait for ever, and a device never ends."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _Bad("it is no regular file")
    return os.fdopen(descriptor, "rb")


def _read(reader: _Reader, size_bytes: int) -> GGUFHeader:
    if size_bytes == 0:
        raise _Bad("it is empty")
    if size_bytes < 24 or reader.take(4) != b"GGUF":
        raise _Bad("it does not begin with GGUF")
    version = int(reader.number("<I"))
    if version not in (2, 3):
        swapped = version & 0xFFFF == 0
        raise _Bad("it is written for big-endian machines" if swapped else f"its version is {version}, and 2 and 3 are known")
    tensor_count = reader.count(_MAX_ENTRIES, "tensors")
    entry_count = reader.count(_MAX_ENTRIES, "metadata entries")
    metadata = _metadata(reader, entry_count)
    described = [_describe(reader) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment > 1 << 16 or alignment & (alignment - 1):
        raise _Bad("its alignment is no power of two")
    data = -(-reader.at // alignment) * alignment
    tensors = tuple(_place(item, data, alignment, size_bytes) for item in described)
    _check_places(tensors)
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not _ARCHITECTURE.fullmatch(architecture):
        raise _Bad("it names no architecture")
    template = metadata.get("tokenizer.chat_template")
    if isinstance(template, str) and len(template) > _MAX_TEMPLATE_BYTES:
        raise _Bad(f"its chat template is longer than {_MAX_TEMPLATE_BYTES >> 20} MiB")
    header = GGUFHeader(
        architecture=architecture,
        name=_shown(metadata.get("general.name")),
        quantisation="",
        context_length=0,
        chat_template=template if isinstance(template, str) else None,
        tensor_count=tensor_count,
        parameters=sum(_elements(tensor.shape) for tensor in tensors),
        metadata=metadata,
        size_bytes=size_bytes,
        tensors=tensors,
    )
    object.__setattr__(header, "context_length", header.integer(f"{architecture}.context_length"))
    object.__setattr__(header, "quantisation", _quantisation(header))
    return header


def _metadata(reader: _Reader, entries: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    seen: set[str] = set()
    for _ in range(entries):
        key = reader.text(_MAX_KEY_BYTES)
        if key in seen:  # which of the two counts would depend on who reads
            raise _Bad(f"it says {_shown(key)} twice")
        seen.add(key)
        value = reader.value(int(reader.number("<I")))
        if value is not None:
            found[key] = value
    return found


def _shown(text: Value | None) -> str:
    """What a file says of itself, fit for a terminal."""
    printable = "".join(character for character in text if character.isprintable()) if isinstance(text, str) else ""
    return printable[:_MAX_NAME]


def _describe(reader: _Reader) -> tuple[str, tuple[int, ...], int, int]:
    name = reader.text(_MAX_TENSOR_NAME_BYTES)
    dimensions = reader.count(4, "dimensions of a tensor", "<I")
    shape = tuple(reader.count(1 << 40, "elements in a row") for _ in range(dimensions))
    return name, shape, int(reader.number("<I")), int(reader.number("<Q"))


def _place(item: tuple[str, tuple[int, ...], int, int], data: int, alignment: int, size_bytes: int) -> Tensor:
    name, shape, number, offset = item
    said = _shown(name)
    if number not in TENSOR_TYPES:
        raise _Bad(f"the tensor {said} has the unknown type {number}")
    kind, block, block_bytes = TENSOR_TYPES[number]
    elements = _elements(shape)
    if not name or not shape or elements < 1 or shape[0] % block:
        raise _Bad(f"the tensor {said} has an impossible shape")
    if offset % alignment:
        raise _Bad(f"the tensor {said} begins at an odd place")
    needed = elements // block * block_bytes
    if data + offset + needed > size_bytes:
        raise _Bad(f"the tensor {said} reaches beyond its end: the file is cut short")
    return Tensor(name, shape, kind, data + offset, needed)


def _check_places(tensors: tuple[Tensor, ...]) -> None:
    """No name twice, and no two tensors on the same bytes."""
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise _Bad("two of its tensors have the same name")
    end = 0
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.offset < end:
            raise _Bad(f"the tensor {_shown(tensor.name)} lies on another one")
        end = tensor.offset + tensor.size_bytes


def _elements(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _quantisation(header: GGUFHeader) -> str:
    """By the file's own word where the tensors alone do not tell, else the type that most weights have."""
    said = _FILE_TYPES.get(header.integer("general.file_type", -1))
    if said:
        return said
    weights: Counter[str] = Counter()
    for tensor in header.tensors:
        if len(tensor.shape) > 1 and not tensor.name.startswith(("token_embd", "output.")):
            weights[tensor.type] += _elements(tensor.shape)
    return weights.most_common(1)[0][0] if weights else ""
