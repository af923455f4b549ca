"""Choose the next token from logits, in numpy. Greedy at temperature 0, else the usual truncations in the usual order."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from daemon.errors import BadRequest
from daemon.records import Sampling

_REPEAT_WINDOW = 64  # tokens that repeat_penalty looks back on, as llama.cpp's default
_SORTED = 2048  # candidates sorted at first; the rest only if top_p reaches beyond them


def check_sampling(sampling: Sampling) -> None:
    """Raises BadRequest that names the field for a value out of range."""
    ranges = {
        "temperature": (sampling.temperature, 0.0, 100.0),
        "top_p": (sampling.top_p, 0.0, 1.0),
        "min_p": (sampling.min_p, 0.0, 1.0),
        "top_k": (float(sampling.top_k), 0.0, 1e9),
        "presence_penalty": (sampling.presence_penalty, -2.0, 2.0),
        "frequency_penalty": (sampling.frequency_penalty, -2.0, 2.0),
        "repeat_penalty": (sampling.repeat_penalty, 0.01, 100.0),
    }
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:  # also refuses NaN
            raise BadRequest(f"{name} must be between {low:g} and {high:g}.", param=name)
    if len(sampling.stop) > 64 or any(not text for text in sampling.stop):
        raise BadRequest("stop takes up to 64 texts, none of them empty.", param="stop")


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-probabilities (nats) along the last axis; same shape."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normal: NDArray[np.float32] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True, dtype=np.float64)).astype(np.float32)
    return normal


class Sampler:
    """One sequence's sampler: settings, its random numbers and what it has said so far."""

    def __init__(self, sampling: Sampling, prompt: list[int]) -> None:
        self._sampling = sampling
        self._random = np.random.default_rng(None if sampling.seed is None else sampling.seed & (2**63 - 1))
        self._counts: Counter[int] = Counter()
        self._recent = prompt[-_REPEAT_WINDOW:] if sampling.repeat_penalty != 1.0 else []

    def choose(self, logits: NDArray[np.float32]) -> tuple[int, float]:
        """Pick a token.

        Args:
            logits: shape (vocabulary,), as the model gave them; not changed.

        Returns:
            The token id, and its log-probability (nats) at temperature 1 before penalties and truncation.
        """
        peak = float(logits.max())
        normaliser = peak + float(np.log(np.exp(logits - peak).sum(dtype=np.float64)))
        adjusted = self._penalised(logits)
        token = int(np.argmax(adjusted)) if self._sampling.temperature <= 0 else self._draw(adjusted)
        self._counts[token] += 1
        if self._sampling.repeat_penalty != 1.0:
            self._recent = [*self._recent, token][-_REPEAT_WINDOW:]
        return token, min(0.0, float(logits[token]) - normaliser)

    def _penalised(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        sampling = self._sampling
        if sampling.repeat_penalty == 1.0 and not (sampling.presence_penalty or sampling.frequency_penalty):
            return logits
        adjusted = logits.copy()
        if sampling.repeat_penalty != 1.0 and self._recent:
            seen = np.unique(self._recent)
            values = adjusted[seen]
            adjusted[seen] = np.where(values > 0, values / sampling.repeat_penalty, values * sampling.repeat_penalty)
        for token, count in self._counts.items():
            adjusted[token] -= sampling.presence_penalty + sampling.frequency_penalty * count
        return adjusted

    def _draw(self, logits: NDArray[np.float32]) -> int:
        """top-k, top-p, min-p (each on what the one before it left), then temperature, then one draw."""
        sampling = self._sampling
        if sampling.top_k == 0 and sampling.top_p >= 1.0 and sampling.min_p <= 0.0:  # nothing to cut off, so nothing to sort
            cumulative = np.cumsum(np.exp((logits - logits.max()).astype(np.float64) / sampling.temperature))
            return min(len(logits) - 1, int(np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right")))
        order = self._ordered(logits)
        probabilities = np.exp((logits[order] - logits[order[0]]).astype(np.float64))
        probabilities /= probabilities.sum() if sampling.top_k else np.exp((logits - logits[order[0]]).astype(np.float64)).sum()
        kept = len(order)
        if sampling.top_p < 1.0:
            kept = int(np.searchsorted(np.cumsum(probabilities), sampling.top_p)) + 1
        if sampling.min_p > 0.0:
            kept = min(kept, int((probabilities >= sampling.min_p * probabilities[0]).sum()))
        order = order[: max(1, kept)]
        scaled = np.exp((logits[order] - logits[order[0]]).astype(np.float64) / sampling.temperature)
        cumulative = np.cumsum(scaled)
        return int(order[min(len(order) - 1, int(np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right")))])

    def _ordered(self, logits: NDArray[np.float32]) -> NDArray[np.intp]:
        """Token ids, most likely first; as many as the truncations can keep."""
        size = len(logits)
        wanted = min(self._sampling.top_k, size) if self._sampling.top_k else size
        if wanted > _SORTED and self._sampling.top_p < 1.0:
            best = np.argpartition(-logits, _SORTED)[:_SORTED]
            peak = logits[best].max()
            share = np.exp((logits[best] - peak).astype(np.float64)).sum() / np.exp((logits - peak).astype(np.float64)).sum()
            if share >= self._sampling.top_p:
                wanted = _SORTED
        if wanted < size:
            top = np.argpartition(-logits, wanted - 1)[:wanted]
            return top[np.argsort(-logits[top], kind="stable")]
        return np.argsort(-logits, kind="stable")
