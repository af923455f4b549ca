"""What several services exchange: messages, token traces, stored inferences and reports."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

from daemon.frozen import dataclass

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""Any JSON value."""
JSONObject: TypeAlias = dict[str, JSON]
Message: TypeAlias = JSONObject
"""One message in OpenAI chat form: `role`, `content` (text, parts or null), `tool_calls`, `tool_call_id`, `reasoning_content`."""

DEFAULT_SCENARIO = "default"
_FRESH = 256
_RANDOM_CHARACTERS = 14
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_SPELLED = (_ALPHABET * 8).encode()  # the character of each byte: all come equally often
_SHIFTS = range(45, -1, -5)
_random: deque[str] = deque()  # not handed out yet; a deque's ends may be used by several threads


def new_id(prefix: str) -> str:
    """An id such as `rec_0ne6…`: sorts by creation time (48 bits of milliseconds), then 70 random bits."""
    return f"{prefix}_{_spelled(int(time.time() * 1000))}{_random_text()}"


@lru_cache(maxsize=1)  # many are made in a millisecond
def _spelled(milliseconds: int) -> str:
    value = milliseconds << 2
    return "".join([_ALPHABET[(value >> shift) & 31] for shift in _SHIFTS])


def _random_text() -> str:
    """From the system's source of secrets, which is asked for many at once: each call lets other threads run first."""
    try:
        return _random.pop()
    except IndexError:
        text = os.urandom(_RANDOM_CHARACTERS * _FRESH).translate(_SPELLED).decode()
        _random.extend(text[start : start + _RANDOM_CHARACTERS] for start in range(_RANDOM_CHARACTERS, len(text), _RANDOM_CHARACTERS))
        return text[:_RANDOM_CHARACTERS]


os.register_at_fork(after_in_child=_random.clear)


class Status(StrEnum):
    """How a stored inference ended."""

    OK = "ok"
    ABORTED = "aborted"  # the client hung up; what was generated is kept
    ERROR = "error"


class TurnKind(StrEnum):
    TURN = "turn"
    ASIDE = "aside"  # a title, a summary, a commit message: belongs to the session, is no turn


class Step(StrEnum):
    """How a request follows from what its session held before."""

    UNKNOWN = "unknown"  # stored without asking: an import, a database of before
    BEGIN = "begin"  # it goes on from nothing that is stored
    CONTINUE = "continue"  # it goes on from the reply that it follows
    BRANCH = "branch"  # the same, but another request went on from there already: a fork, an edited message
    COMPACTION = "compaction"  # what came before was replaced by something shorter
    RETRY = "retry"  # the request that it follows, sent again
    CHOICE = "choice"  # one more reply to the request that it follows (`n` above 1)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a request stands in its session."""

    step: Step = Step.UNKNOWN
    follows: str = ""  # a receipt; empty: none
    # What is known while the request is answered, and not stored:
    keys: tuple[int, ...] = field(default=(), compare=False, repr=False)  # of the request's messages, so that they are hashed once
    added: int = field(default=0, compare=False)  # where in the request begins what is new, behind the followed turn's reply
    echoed: bool = field(default=True, compare=False)  # the reply before that is the one that was given


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampler settings of one request, as applied. Temperature 0 is greedy."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0: off
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repeat_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()  # token id, what is added to its logit


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """What the engine computed, token for token; the ground truth that recipes train on.

    `prompt` holds the token ids of the effective prompt; `completion` and `logprobs` (nats, temperature 1, before
    truncation) have one entry a generated token, the end-of-turn token included where it was sampled.

    Where a secret was replaced, the ids spell its placeholder instead: `masked` has these spans, half-open, over prompt and
    completion as one sequence. Nothing may be learned from a masked token, and its log-probability is 0.
    """

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    logprobs: tuple[float, ...]
    masked: tuple[tuple[int, int], ...] = ()

    @property
    def counts(self) -> tuple[bool, ...] | None:
        """One entry a completion token: whether it may be learned from. None: all may."""
        start = len(self.prompt)
        if not any(stop > start for _, stop in self.masked):
            return None
        hidden = {position for first, stop in self.masked for position in range(first, stop)}
        return tuple(start + position not in hidden for position in range(len(self.completion)))


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0  # of the prompt, not computed again
    reasoning_tokens: int = 0  # of the completion


@dataclass(frozen=True, slots=True)
class Inference:
    """One stored inference: both sides, and what answered it. Its id is the receipt."""

    id: str
    scenario: str
    session: str
    created_at: float  # seconds since the epoch
    release_id: str
    lora_id: str | None  # sha256 of the LoRA that answered; None: the base model
    model: str
    wire: str  # "chat", "completions", "responses", "messages"
    messages: tuple[Message, ...]  # as the client sent them
    effective_messages: tuple[Message, ...] | None  # after serving hints; None: unchanged
    reply: Message
    finish_reason: str
    status: Status = Status.OK
    kind: TurnKind = TurnKind.TURN
    lineage: Lineage = field(default_factory=Lineage)
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    sampling: Sampling = field(default_factory=Sampling)
    tokens: TokenTrace | None = None  # None: the engine gives none, or they could not be redacted
    request: JSONObject = field(default_factory=dict)  # the other request fields (tools, response_format, …)
    tags: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    note: str = ""  # what the engine has to say of the reply, such as a tool call that could not be read
    cache_miss: str = ""  # why a continued conversation was read again; empty: it was not
    first_token_ms: float = 0.0
    total_ms: float = 0.0
    redactions: int = 0  # how many spans were replaced before storing
    sequence: int = 0  # place in the scenario's stream; given by the store


@dataclass(frozen=True, slots=True)
class Report:
    """Feedback tied to receipts. `feedback` as an object may hold `correction` (the reply as it should have been) and `note`."""

    id: str
    scenario: str
    created_at: float
    references: tuple[str, ...] = ()
    score: float | None = None
    feedback: str | JSONObject | None = None
    metadata: JSONObject = field(default_factory=dict)
    sequence: int = 0

    @property
    def correction(self) -> str | None:
        """The reply as the user would have had it, if the report says so."""
        if isinstance(self.feedback, dict):
            text = self.feedback.get("correction")
            return text if isinstance(text, str) and text else None
        return None
