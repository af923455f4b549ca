"""Whether there is memory for a model."""

from __future__ import annotations

from daemon.engine.llama.cache.slots import SIDE_SLOTS
from daemon.engine.llama.machine import available_bytes, cache_bytes_per_token
from daemon.engine.llama.protocol import WorkerSettings
from daemon.errors import Unsupported
from daemon.gguf import GGUFHeader

_WORKING_BYTES = 192 << 20
"""Of the interpreter, the vocabulary, and what one batch is computed in."""


def needed_bytes(settings: WorkerSettings, header: GGUFHeader) -> int:
    """About what a worker takes: weights, the keys and values of every place, and what it computes in."""
    cells = settings.context_tokens * (settings.streams + SIDE_SLOTS)
    return header.size_bytes + cells * cache_bytes_per_token(header) + settings.cache_bytes + _WORKING_BYTES


def check_room(model: str, needed: int, beside: str) -> None:
    """Raises Unsupported if `needed` bytes are not free while `beside` serves on."""
    free = available_bytes()
    if free and needed > free:
        message = f"There is no room for {model} beside {beside}: it needs {needed} bytes of memory, and {free} are free."
        raise Unsupported(message, f"Stop the daemon first: reef down, reef models use {model}, reef up. Or set engine.context lower.")
