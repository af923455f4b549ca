"""Choose the next token from logits, in numpy. Greedy at temperature 0, else the usual truncations in the usual order.

The draw depends on the logits, the settings and the seed alone, never on what else is in the batch.
"""

from __future__ import annotations

import math
from collections import deque
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from daemon.engine.llama.logprobs import Pieces, logprob_entry
from daemon.errors import BadRequest, EngineError
from daemon.records import JSONObject, Sampling

MOST_ALTERNATIVES = 20  # as OpenAI's
_BIAS_LIMIT = 100.0  # at the limits a token is banned, or only such tokens are left
_MOST_STOPS = 64
_LONGEST_STOP = 1000  # at each token the end of the reply is compared with the beginnings of all of them
_COLD = 1e-5  # a temperature up to this is greedy: logits divided by less overflow
_REPEAT_WINDOW = 64  # tokens that repeat_penalty looks back on, as llama.cpp's default
_BLOCK = 256  # a draw first chooses a block of the vocabulary: summing blocks is far faster than a running sum
_WIDTHS = (8.0, 16.0)  # so far below the best logit candidates are looked for first, then everywhere
_LOWEST = float(np.finfo(np.float32).min)
_BINS_A_NAT = 32
_LAST_BIN = 4095


class Rule(Protocol):
    """What a reply must be, as far as it has come."""

    def restrict(self, values: NDArray[np.float32]) -> None:
        """Set to minus infinity, in place, what may not come next; something always may."""

    def accept(self, token: int) -> None:
        """This token has come."""


class Choice(NamedTuple):
    token: int
    logprob: float
    """In nats, at temperature 1, before penalties, truncation and structure."""
    entry: JSONObject | None = None
    """OpenAI's entry of `logprobs.content`, where asked for."""


def check_sampling(sampling: Sampling, vocabulary_size: int, top_logprobs: int | None = None) -> None:
    """Raises BadRequest that names the field for a value out of range."""
    ranges = {
        "temperature": (sampling.temperature, 0.0, 100.0),
        "top_p": (sampling.top_p, 0.0, 1.0),
        "min_p": (sampling.min_p, 0.0, 1.0),
        "top_k": (float(sampling.top_k), 0.0, 1e9),
        "presence_penalty": (sampling.presence_penalty, -2.0, 2.0),
        "frequency_penalty": (sampling.frequency_penalty, -2.0, 2.0),
        "repeat_penalty": (sampling.repeat_penalty, 0.01, 100.0),
        "top_logprobs": (float(top_logprobs or 0), 0.0, float(MOST_ALTERNATIVES)),
    }
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:  # also refuses NaN
            raise BadRequest(f"{name} must be between {low:g} and {high:g}.", param=name)
    if len(sampling.stop) > _MOST_STOPS or not all(0 < len(text) <= _LONGEST_STOP for text in sampling.stop):
        raise BadRequest(f"stop takes up to {_MOST_STOPS} texts of 1 to {_LONGEST_STOP} characters.", param="stop")
    for token, bias in sampling.logit_bias:
        if not 0 <= token < vocabulary_size:
            raise BadRequest(f"logit_bias names token {token}, but this model's tokens are 0 to {vocabulary_size - 1}.", param="logit_bias")
        if not -_BIAS_LIMIT <= bias <= _BIAS_LIMIT:
            raise BadRequest(f"logit_bias of token {token} must be between -100 and 100.", param="logit_bias")


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-probabilities (nats) along the last axis; same shape."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normal: NDArray[np.float32] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True, dtype=np.float64)).astype(np.float32)
    return normal


def check_numbers(largest: NDArray[np.float32] | np.float32) -> None:
    """Raises EngineError where the largest logit, or one of several, is no number; then the others are none either."""
    if not np.isfinite(largest).all():
        raise EngineError("The model computed values that are not numbers.", "A LoRA may be broken: try without it.")


class _Scratch:
    """Room for one choice. `weights` is padded with zeros to whole blocks."""

    def __init__(self, size: int) -> None:
        self.values = np.empty(size, np.float32)
        self.padded = np.zeros(-(-size // _BLOCK) * _BLOCK, np.float32)
        self.weights = self.padded[:size]
        self.blocks = self.padded.reshape(-1, _BLOCK)


_scratch = lru_cache(maxsize=2)(_Scratch)  # shared by all samplers: they are used by one thread, one after the other


class Sampler:
    """One sequence's sampler: settings, its random numbers and what it has said so far.

    Args:
        prompt: token ids, which repeat_penalty looks back on.
        constraint: what the reply must be.
        top_logprobs: alternatives in each choice's entry; None: no entries.
        pieces: the bytes of tokens, for entries.
    """

    def __init__(
        self,
        sampling: Sampling,
        prompt: list[int],
        *,
        constraint: Rule | None = None,
        top_logprobs: int | None = None,
        pieces: Pieces | None = None,
    ) -> None:
        self._sampling = sampling
        self._random = np.random.default_rng(None if sampling.seed is None else sampling.seed & (2**63 - 1))
        self._constraint = constraint
        self._alternatives = top_logprobs
        self._pieces = pieces
        self._said: set[int] = set()
        self._recent = deque(prompt[-_REPEAT_WINDOW:], _REPEAT_WINDOW)
        self._repeats = sampling.repeat_penalty != 1.0
        self._penalises = bool(sampling.presence_penalty or sampling.frequency_penalty)
        self._offsets: NDArray[np.float32] | None = None  # what is added to each logit; None until there is any

    def choose(self, logits: NDArray[np.float32]) -> Choice:
        """Pick a token.

        Args:
            logits: shape (vocabulary,), as the model gave them; not changed, not kept.

        Raises:
            EngineError: the logits are not numbers.
            BadRequest: the structure that was asked for has become too large to follow.
        """
        scratch = _scratch(len(logits))
        best = int(np.argmax(logits))
        peak = float(logits[best])
        check_numbers(logits[best])
        np.subtract(logits, peak, out=scratch.weights)
        np.exp(scratch.weights, out=scratch.weights)
        normaliser = peak + math.log(float(scratch.weights.sum()))
        values = self._adjusted(logits, scratch)
        if self._sampling.temperature > _COLD:
            token = self._draw(values, scratch, peak if values is logits else None)
        else:
            token = best if values is logits else int(np.argmax(values))
        self._remember(token)
        logprob = min(0.0, float(logits[token]) - normaliser)
        return Choice(token, logprob, self._entry(token, logprob, logits, normaliser))

    def _adjusted(self, logits: NDArray[np.float32], scratch: _Scratch) -> NDArray[np.float32]:
        """Logits with bias, penalties and structure; `logits` itself if there is none of them."""
        if self._offsets is None and (self._penalises or self._sampling.logit_bias):
            self._offsets = _offsets(self._sampling.logit_bias, len(logits))
        if self._offsets is None and not self._repeats and self._constraint is None:
            return logits
        values = scratch.values
        np.copyto(values, logits)
        if self._repeats and self._recent:
            seen = np.unique(np.fromiter(self._recent, np.intp))
            old = values[seen]
            values[seen] = np.where(old > 0, old / self._sampling.repeat_penalty, old * self._sampling.repeat_penalty)
        if self._offsets is not None:
            values += self._offsets
        if self._constraint is not None:
            self._constraint.restrict(values)
        if values.max() == -np.inf:  # all that is possible or allowed is banned: the structure was promised, the bias was not
            np.copyto(values, logits)
            if self._constraint is not None:
                self._constraint.restrict(values)
        return values

    def _remember(self, token: int) -> None:
        if self._constraint is not None:
            self._constraint.accept(token)
        if self._repeats:
            self._recent.append(token)
        if self._penalises and self._offsets is not None:
            self._offsets[token] -= self._sampling.frequency_penalty + (0 if token in self._said else self._sampling.presence_penalty)
            self._said.add(token)

    def _draw(self, values: NDArray[np.float32], scratch: _Scratch, weighed: float | None) -> int:
        """top-k, top-p, min-p (each on what the one before it left), then temperature, then one draw.

        Args:
            weighed: the largest value, if `scratch.weights` holds the weights of `values` at temperature 1 already.
        """
        sampling = self._sampling
        peak = float(values.max()) if weighed is None else weighed
        cuts = sampling.top_k > 0 or sampling.top_p < 1.0 or sampling.min_p > 0.0
        if weighed is None or (not cuts and sampling.temperature != 1.0):
            np.subtract(values, peak, out=scratch.weights)
            if not cuts:
                scratch.weights /= sampling.temperature
            np.exp(scratch.weights, out=scratch.weights)
        if not cuts:
            return _pick(scratch, self._random.random())
        kept = self._kept(values, peak, float(scratch.weights.sum()) if sampling.top_p < 1.0 else 0.0)
        cumulative = np.cumsum(np.exp((values[kept].astype(np.float64) - peak) / sampling.temperature))
        return int(kept[int(np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right"))])

    def _kept(self, values: NDArray[np.float32], peak: float, total: float) -> NDArray[np.intp]:
        """Token ids that the truncations leave. `total`: the sum of all weights, for top_p without top_k."""
        sampling = self._sampling
        least = -np.inf if sampling.min_p <= 0.0 else peak + math.log(sampling.min_p)
        if sampling.top_k:
            kept = _largest(values, sampling.top_k, peak)
            if sampling.top_p < 1.0:
                mass = np.cumsum(np.exp(values[kept].astype(np.float64) - peak))
                kept = kept[: int(np.searchsorted(mass, sampling.top_p * mass[-1])) + 1]
        elif sampling.top_p < 1.0:
            kept = _heaviest(values, sampling.top_p * total, peak)
        else:
            return np.flatnonzero(values >= least)
        return kept[values[kept] >= least]

    def _entry(self, token: int, logprob: float, logits: NDArray[np.float32], normaliser: float) -> JSONObject | None:
        if self._alternatives is None or self._pieces is None:
            return None
        top = _largest(logits, self._alternatives, float(logits.max())) if self._alternatives else ()
        return logprob_entry(token, logprob, [(int(other), min(0.0, float(logits[other]) - normaliser)) for other in top], self._pieces)


def _offsets(bias: tuple[tuple[int, float], ...], size: int) -> NDArray[np.float32]:
    """What `logit_bias` adds to each logit: OpenAI's -100 bans, 100 leaves nothing else."""
    forced = [token for token, value in bias if value >= _BIAS_LIMIT]
    offsets = np.full(size, -np.inf if forced else 0.0, np.float32)
    if forced:
        offsets[forced] = 0.0
        return offsets
    for token, value in bias:
        offsets[token] += -np.inf if value <= -_BIAS_LIMIT else value
    return offsets


def _pick(scratch: _Scratch, draw: float) -> int:
    """The token at `draw` (0 to 1) of the weights' running sum."""
    sums = np.cumsum(scratch.blocks.sum(axis=1, dtype=np.float64))
    target = draw * float(sums[-1])
    block = int(np.searchsorted(sums, target, side="right"))
    within = scratch.blocks[block]
    before = float(sums[block - 1]) if block else 0.0
    place = int(np.searchsorted(np.cumsum(within, dtype=np.float64), target - before, side="right"))
    if place == _BLOCK:  # the two sums differ in their last bits
        place = int(np.flatnonzero(within)[-1])
    return block * _BLOCK + place


def _largest(values: NDArray[np.float32], count: int, peak: float) -> NDArray[np.intp]:
    """Ids of the `count` largest finite values, largest first; of equal ones the lower id first."""
    for width in _WIDTHS:
        ids = np.flatnonzero(values >= peak - width)
        if len(ids) >= count:
            break
    else:
        ids = np.flatnonzero(values >= _LOWEST)
    if len(ids) > 4 * count:
        edge = np.partition(values[ids], len(ids) - count)[len(ids) - count]
        ids = ids[values[ids] >= edge]
    return ids[np.argsort(-values[ids], kind="stable")][:count]


def _heaviest(values: NDArray[np.float32], mass: float, peak: float) -> NDArray[np.intp]:
    """Ids of the largest values, as few as reach `mass` of weight together.

    Sorting tens of thousands takes milliseconds: they are put into bins by size, and only the bin where `mass` is reached is sorted.
    """
    for width in (*_WIDTHS, math.inf):
        ids = np.flatnonzero(values >= max(peak - width, _LOWEST))
        weights = np.exp(values[ids].astype(np.float64) - peak)
        if float(weights.sum()) >= mass:
            break
    bins = np.minimum((peak - values[ids]) * _BINS_A_NAT, _LAST_BIN).astype(np.intp)
    sums = np.cumsum(np.bincount(bins, weights))
    edge = min(int(np.searchsorted(sums, mass)), len(sums) - 1)
    last = np.flatnonzero(bins == edge)
    last = last[np.argsort(-values[ids[last]], kind="stable")]
    needed = mass - (float(sums[edge - 1]) if edge else 0.0)
    last = last[: int(np.searchsorted(np.cumsum(weights[last]), needed)) + 1]
    return np.concatenate([ids[bins < edge], ids[last]])
