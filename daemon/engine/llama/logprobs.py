"""OpenAI's entries of `logprobs.content`: a token, its log-probability and the alternatives to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from daemon.records import JSONObject

_LEAST = -9999.0  # OpenAI's for "never", which JSON cannot say otherwise


class Pieces(Protocol):
    """The vocabulary, as far as it is needed here."""

    def piece(self, token: int, *, special: bool = False) -> bytes: ...


def logprob_entry(token: int, logprob: float, top: Iterable[tuple[int, float]], pieces: Pieces) -> JSONObject:
    """One token's entry; `top` holds the alternatives, most likely first. Log-probabilities in nats, at temperature 1.

    A token that is a part of a character only is shown as U+FFFD; `bytes` has what it is.
    """
    return {**_token(token, logprob, pieces), "top_logprobs": [_token(other, value, pieces) for other, value in top]}


def _token(token: int, logprob: float, pieces: Pieces) -> JSONObject:
    data = pieces.piece(token, special=True)
    return {"token": data.decode(errors="replace"), "logprob": max(_LEAST, logprob), "bytes": list(data)}
