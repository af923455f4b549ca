"""Read a safetensors file: a bounded header, then one tensor at a time. Nothing here can execute what it reads.

Format: 8 bytes little-endian header length, a JSON object name → {dtype, shape, data_offsets}, the bytes.
Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from daemon.errors import DataError
from daemon.records import JSON

_MAX_HEADER_BYTES: Final = 16 << 20
_MAX_TENSORS: Final = 1 << 16
_BYTES: Final = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_HINT: Final = "Let the trainer write it again."


@dataclass(frozen=True, slots=True)
class TensorFacts:
    name: str
    dtype: str  # F64, F32, F16 or BF16
    shape: tuple[int, ...]
    begin: int  # bytes from the start of the file
    end: int


def read_tensor_facts(path: Path) -> list[TensorFacts]:
    """All tensors, in the order of their bytes.

    Raises:
        DataError: the file is no safetensors file, or holds other than floating-point tensors.
    """
    try:
        with path.open("rb") as stream:
            size_bytes = path.stat().st_size
            start = stream.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= length <= min(_MAX_HEADER_BYTES, size_bytes - 8):
                raise DataError(f"{path.name} is no safetensors file.", _HINT)
            header: JSON = json.loads(stream.read(length))
    except (ValueError, RecursionError) as error:
        raise DataError(f"The header of {path.name} is no JSON.", _HINT) from error
    except OSError as error:
        raise DataError(f"Cannot read {path.name}: {error.strerror}.", _HINT) from error
    if not isinstance(header, dict) or len(header) > _MAX_TENSORS:
        raise DataError(f"The header of {path.name} is no object, or too large.", _HINT)
    found = [_facts(path.name, name, entry, 8 + length) for name, entry in header.items() if name != "__metadata__"]
    found.sort(key=lambda one: (one.begin, one.end))
    at = 8 + length
    for tensor in found:
        if tensor.begin != at:
            raise DataError(f"{path.name}: the bytes of {tensor.name} overlap others or leave a gap.", _HINT)
        at = tensor.end
    if at != size_bytes:
        raise DataError(f"{path.name} is truncated or has bytes that belong to no tensor.", _HINT)
    return found


def _facts(file: str, name: str, entry: JSON, data_at: int) -> TensorFacts:
    if isinstance(entry, dict):
        dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        if isinstance(dtype, str) and isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2:
            sizes = [size for size in shape if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 31]
            ends = [one for one in offsets if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
            if dtype not in _BYTES:
                raise DataError(f"{file}: {name} is of type {dtype}, not floating point.", _HINT)
            if len(sizes) == len(shape) <= 8 and len(ends) == 2 and ends[1] - ends[0] == math.prod(sizes) * _BYTES[dtype]:
                return TensorFacts(name, dtype, tuple(sizes), data_at + ends[0], data_at + ends[1])
    raise DataError(f"{file}: the entry of {name[:100]!r} makes no sense.", _HINT)


def read_tensors(path: Path, facts: list[TensorFacts]) -> Iterator[tuple[TensorFacts, NDArray[np.float32]]]:
    """Each tensor in float32 and its shape, one at a time. Raises DataError for a value that is not finite."""
    with path.open("rb") as stream:
        for tensor in facts:
            stream.seek(tensor.begin)
            raw = stream.read(tensor.end - tensor.begin)
            values = _float32(raw, tensor.dtype).reshape(tensor.shape)
            if not np.isfinite(values).all():
                raise DataError(f"{path.name}: {tensor.name} holds a value that is not finite.", "The training diverged: lower its rate.")
            yield tensor, values


def _float32(raw: bytes, dtype: str) -> NDArray[np.float32]:
    if dtype == "BF16":
        return (np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
    with np.errstate(over="ignore"):
        values: NDArray[np.float32] = np.frombuffer(raw, dtype=kinds[dtype]).astype(np.float32)
    return values
