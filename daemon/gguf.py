"""Read the header of a GGUF file, bounded in every direction, before any native code sees the file.

Layout (little endian): magic `GGUF`, version, counts, key-value pairs, tensor descriptions, aligned data.
Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from daemon.errors import DataError

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...]"

_MAX_ENTRIES = 1 << 16
_MAX_KEY_BYTES = 1 << 16
_MAX_TEXT_BYTES = 16 << 20
_MAX_ARRAY = 1 << 24
_KEPT_ARRAY = 64  # longer ones (vocabularies) are checked and skipped
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
    """Takes bytes from a file and never more than it has."""

    def __init__(self, stream: BinaryIO, size_bytes: int) -> None:
        self._stream = stream
        self._size = size_bytes
        self.at = 0

    def take(self, count: int) -> bytes:
        if count > self._size - self.at:
            raise _Bad("it ends in the middle of its header")
        self.at += count
        return self._stream.read(count)

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
        return self.take(self.count(limit, "bytes of text")).decode(errors="replace")

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
    """Read and check a GGUF header. Every tensor must lie within the file.

    Raises:
        DataError: the file cannot be read, or is no whole GGUF file of version 2 or 3.
    """
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as stream:
            return _read(_Reader(stream, size_bytes), size_bytes)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check the path and its permissions.") from error
    except _Bad as error:
        raise DataError(f"{path} is not a usable GGUF file: {error}.", _HINT) from error


def _read(reader: _Reader, size_bytes: int) -> GGUFHeader:
    if size_bytes < 24 or reader.take(4) != b"GGUF":
        raise _Bad("it does not begin with GGUF")
    version = int(reader.number("<I"))
    if version not in (2, 3):
        raise _Bad(f"its version is {version}, and 2 and 3 are known")
    tensor_count = reader.count(_MAX_ENTRIES, "tensors")
    entry_count = reader.count(_MAX_ENTRIES, "metadata entries")
    metadata: dict[str, Value] = {}
    for _ in range(entry_count):
        key = reader.text(_MAX_KEY_BYTES)
        value = reader.value(int(reader.number("<I")))
        if value is not None:
            metadata[key] = value
    described = [_describe(reader) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment > 1 << 16 or alignment & (alignment - 1):
        raise _Bad("its alignment is no power of two")
    data = -(-reader.at // alignment) * alignment
    tensors = tuple(_place(item, data, size_bytes) for item in described)
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise _Bad("it names no architecture")
    header = GGUFHeader(
        architecture=architecture,
        name=str(metadata.get("general.name", "")),
        quantisation="",
        context_length=0,
        chat_template=template if isinstance(template := metadata.get("tokenizer.chat_template"), str) else None,
        tensor_count=tensor_count,
        parameters=sum(_elements(tensor.shape) for tensor in tensors),
        metadata=metadata,
        size_bytes=size_bytes,
        tensors=tensors,
    )
    object.__setattr__(header, "context_length", header.integer(f"{architecture}.context_length"))
    object.__setattr__(header, "quantisation", _quantisation(header))
    return header


def _describe(reader: _Reader) -> tuple[str, tuple[int, ...], int, int]:
    name = reader.text(_MAX_KEY_BYTES)
    dimensions = reader.count(4, "dimensions of a tensor", "<I")
    shape = tuple(reader.count(1 << 40, "elements in a row") for _ in range(dimensions))
    return name, shape, int(reader.number("<I")), int(reader.number("<Q"))


def _place(item: tuple[str, tuple[int, ...], int, int], data: int, size_bytes: int) -> Tensor:
    name, shape, number, offset = item
    if number not in TENSOR_TYPES:
        raise _Bad(f"the tensor {name} has the unknown type {number}")
    kind, block, block_bytes = TENSOR_TYPES[number]
    elements = _elements(shape)
    if not shape or elements < 1 or shape[0] % block:
        raise _Bad(f"the tensor {name} has an impossible shape")
    needed = elements // block * block_bytes
    if data + offset + needed > size_bytes:
        raise _Bad(f"the tensor {name} reaches beyond its end: the file is cut short")
    return Tensor(name, shape, kind, data + offset, needed)


def _elements(shape: tuple[int, ...]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product


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
