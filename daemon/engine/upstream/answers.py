"""What another server answers besides replies: the models that it has, and vectors."""

from __future__ import annotations

import math

from daemon.engine.base import Embedded
from daemon.engine.upstream.chat.reply import whole
from daemon.errors import EngineError
from daemon.records import JSON

_CONTEXT_KEYS = ("context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "n_ctx")


def window_of(body: JSON, model: str) -> int:
    """The context window that `/models` tells of this model; 0 if it does not."""
    data = body.get("data") if isinstance(body, dict) else None
    for entry in data if isinstance(data, list) else []:
        if isinstance(entry, dict) and entry.get("id") == model:
            meta = entry.get("meta")
            for source in (entry, meta if isinstance(meta, dict) else {}):
                for key in _CONTEXT_KEYS:
                    if whole(source.get(key)):
                        return whole(source.get(key))
    return 0


def vectors_of(body: JSON, count: int) -> Embedded:
    """The vectors in the order of the texts, made of unit length. Raises EngineError for what is no such answer."""
    data, usage = (body.get("data"), body.get("usage")) if isinstance(body, dict) else (None, None)
    vectors: dict[int, tuple[float, ...]] = {}
    for place, entry in enumerate(data if isinstance(data, list) else []):
        if isinstance(entry, dict) and (vector := _vector(entry.get("embedding"))):
            index = entry.get("index")
            vectors[index if isinstance(index, int) else place] = vector
    if sorted(vectors) != list(range(count)):
        raise EngineError("The upstream sent something that is no list of vectors.", "Look at its log.")
    tokens = whole(usage.get("prompt_tokens")) if isinstance(usage, dict) else 0
    return Embedded(tuple(vectors[index] for index in range(count)), tokens)


def _vector(value: JSON) -> tuple[float, ...]:
    """Empty for what is no vector, or has no length."""
    if not isinstance(value, list):
        return ()
    try:
        numbers = [float(each) for each in value if isinstance(each, int | float) and not isinstance(each, bool)]
        length = math.hypot(*numbers)
    except OverflowError:
        return ()
    if len(numbers) != len(value) or not math.isfinite(length) or not length:
        return ()
    return tuple(each / length for each in numbers)
