"""The general probe: does a candidate still know what it has not been taught?

A fixed set of plain text and code of ours, about 3,200 tokens in nine files, and five everyday prompts. A LoRA that learned
a form and forgot the rest shows in the mean token loss of the texts, measured on the served weights.
"""

from __future__ import annotations

import json
import math
from importlib.resources import files

from daemon.errors import EngineError
from daemon.evolution.model_client import ModelClient


def probe_texts() -> dict[str, str]:
    """File name → text, in a fixed order."""
    texts = [entry for entry in files(__name__).iterdir() if entry.name.endswith(".txt")]
    return {entry.name: entry.read_text(encoding="utf-8") for entry in sorted(texts, key=lambda entry: entry.name)}


def unrelated_prompts() -> tuple[str, ...]:
    """Five prompts that no recipe teaches; answered before and after, and shown side by side."""
    return tuple(json.loads(files(__name__).joinpath("unrelated_prompts.json").read_text(encoding="utf-8")))


def mean_loss(model: ModelClient) -> float:
    """Mean token loss of the probe texts, in nats; every token but each text's first counts once.

    Raises:
        EngineError: the engine returned something that is no log-probability.
    """
    total, count = 0.0, 0
    for text in probe_texts().values():
        logprobs = model.score(model.tokenize(text))
        total -= math.fsum(logprobs)
        count += len(logprobs)
    if not count or not math.isfinite(total):
        raise EngineError("The general probe gave no finite loss.", "The candidate's weights may be broken; see `reef logs`.")
    return total / count
