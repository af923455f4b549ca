"""The fields of a request that steer the sampler, the same on every OpenAI wire."""

from __future__ import annotations

from daemon.errors import BadRequest
from daemon.gateway.call import ALL_OPEN, SEED_LIMIT, SamplingRequest
from daemon.gateway.wires.fields import an_object, bad, boolean, integer, number, texts
from daemon.records import JSONObject

MAX_CHOICES = 8
MAX_TOP_LOGPROBS = 20
_MAX_TOKENS_LIMIT = 1 << 31
_PENALTIES = ("presence_penalty", "frequency_penalty", "repeat_penalty", "repetition_penalty")
_SAMPLING_FIELDS = frozenset(("temperature", "top_p", "top_k", "min_p", "seed", "stop", "logit_bias", *_PENALTIES))
_MAX_STOPS = 16
_MAX_BIASES = 1024
_TOKEN_DIGITS = 9


def parse_sampling(body: JSONObject) -> SamplingRequest:
    """Raises `BadRequest`, naming the field."""
    if _SAMPLING_FIELDS.isdisjoint(body):  # as most agents ask
        return ALL_OPEN
    top_k = integer(body, "top_k", -1, 1 << 20)
    repeat = number(body, "repeat_penalty", 0.01, 10)
    return SamplingRequest(
        temperature=number(body, "temperature", 0, 2),
        top_p=number(body, "top_p", 0, 1),
        top_k=None if top_k is None else max(0, top_k),
        min_p=number(body, "min_p", 0, 1),
        seed=integer(body, "seed", -SEED_LIMIT, SEED_LIMIT),
        stop=texts(body, "stop", most=_MAX_STOPS),
        presence_penalty=number(body, "presence_penalty", -2, 2) or 0.0,
        frequency_penalty=number(body, "frequency_penalty", -2, 2) or 0.0,
        repeat_penalty=repeat if repeat is not None else number(body, "repetition_penalty", 0.01, 10) or 1.0,
        logit_bias=_logit_bias(body),
    )


def parse_max_tokens(body: JSONObject) -> int | None:
    newer = integer(body, "max_completion_tokens", 1, _MAX_TOKENS_LIMIT)
    older = integer(body, "max_tokens", 1, _MAX_TOKENS_LIMIT)
    return newer if newer is not None else older


def parse_choices(body: JSONObject) -> int:
    return integer(body, "n", 1, MAX_CHOICES) or 1


def parse_chat_logprobs(body: JSONObject) -> int | None:
    """How many alternatives to show with each token; None: no log-probabilities."""
    alternatives = integer(body, "top_logprobs", 0, MAX_TOP_LOGPROBS)
    if boolean(body, "logprobs"):
        return alternatives or 0
    if alternatives:
        raise BadRequest("'top_logprobs' needs 'logprobs' to be true.", param="top_logprobs")
    return None


def _logit_bias(body: JSONObject) -> tuple[tuple[int, float], ...]:
    """Token id as text → what is added to its logit, −100 to 100."""
    biases = an_object(body, "logit_bias") or {}
    if len(biases) > _MAX_BIASES:
        raise BadRequest(f"'logit_bias' may name at most {_MAX_BIASES} tokens, not {len(biases)}.", param="logit_bias")
    found: dict[int, float] = {}
    for token in biases:
        if not (token.isascii() and token.isdigit() and len(token) <= _TOKEN_DIGITS):
            raise bad("logit_bias", "an object whose names are token ids", token)
        found[int(token)] = _bias(biases, token)
    return tuple(found.items())


def _bias(biases: JSONObject, token: str) -> float:
    value = biases[token]
    if isinstance(value, bool) or not isinstance(value, int | float) or not -100 <= value <= 100:
        raise bad("logit_bias", "an object of numbers from -100 to 100", value)
    return float(value)
