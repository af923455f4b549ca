"""The Engine interface: what computes tokens, and what it declares that it can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import field
from enum import Flag, IntEnum, auto
from pathlib import Path
from typing import TypeAlias

from daemon.engine.estimate import estimated_tokens
from daemon.frozen import dataclass
from daemon.records import JSON, JSONObject, Message, Sampling, TokenTrace, Usage


class Capability(Flag):
    """What an engine can do. A recipe that needs more than this is refused, by name."""

    NONE = 0
    TOKEN_IDS = auto()  # token ids of prompt and completion
    LOGPROBS = auto()  # log-probabilities at temperature 1, before truncation
    LORA = auto()  # LoRA loaded into the running engine
    SCORE = auto()  # log-probabilities of a given text (raw forward)
    TRAINABLE = auto()  # the served weights are a local file that the trainer can read
    STRUCTURE = auto()  # a reply held to a JSON schema, a tool call that must come
    FILL_IN_MIDDLE = auto()  # a text completed between a beginning and an end
    EMBEDDINGS = auto()  # vectors of texts
    IMAGES = auto()  # pictures and other parts of a message that are no text

    def names(self) -> list[str]:
        return [str(flag.name).lower() for flag in self]


class Priority(IntEnum):
    """Lower goes first, at token level."""

    LIVE = 0
    EVALUATION = 1
    RUN = 2


@dataclass(frozen=True, slots=True)
class ModelInfo:
    id: str  # the name that clients send
    context_tokens: int
    path: Path | None = None  # the GGUF file; None for an upstream
    sha256: str = ""
    quantisation: str = ""
    architecture: str = ""
    template_sha256: str = ""
    size_bytes: int = 0
    parameters: int = 0
    tool_format: str = ""  # how the model writes tool calls: a name of `daemon.engine.llama.formats`; empty: not known


@dataclass(frozen=True, slots=True)
class LoRA:
    """Low-rank weights ready to load: a GGUF file, named by its sha256."""

    id: str
    path: Path


@dataclass(frozen=True, slots=True)
class Forward:
    """A request as the client sent it, for an engine that speaks its wire: the reply comes as it is too, in `Passed`."""

    wire: str  # a name in `Engine.wires`
    body: bytes  # JSON, with the engine's own name for the model
    stream: bool
    headers: Mapping[str, str] = field(default_factory=dict)  # those that the wire needs, such as anthropic-version


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    messages: tuple[Message, ...]
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None  # None: until the model stops or the window is full; too large is clamped
    text: str | None = None  # a plain text to go on with, instead of messages
    suffix: str | None = None  # what comes after the reply: fill in the middle
    tools: tuple[JSONObject, ...] = ()
    tool_choice: JSON = "auto"  # "auto", "none", "required", or OpenAI's object that names one function
    parallel_tool_calls: bool = True
    response_format: JSONObject | None = None  # OpenAI's: text, json_object, json_schema
    top_logprobs: int | None = None  # alternatives shown with each token; None: no log-probabilities in the reply
    template_values: JSONObject = field(default_factory=dict)  # further variables of the chat template, such as enable_thinking
    lora: LoRA | None = None
    priority: Priority = Priority.LIVE
    scenario: str = ""  # places are shared out fairly between scenarios, and within one between sessions
    session: str = ""  # empty: belongs to no conversation that goes on
    extra: JSONObject = field(default_factory=dict)  # further request fields, for engines that pass them on
    forward: Forward | None = None  # to be passed on unchanged: then there are no `messages`


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the reply. Streamed text never splits a character."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[JSONObject, ...] = ()  # OpenAI tool-call deltas, as they stream
    logprobs: tuple[JSONObject, ...] = ()  # OpenAI's: token, logprob, bytes, top_logprobs; only where asked for
    choice: int = 0  # of several that one server makes of one request that is passed on


@dataclass(frozen=True, slots=True)
class Progress:
    """A long prompt is being read."""

    done_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class Finished:
    finish_reason: str  # "stop", "length", "tool_calls"
    usage: Usage
    tokens: TokenTrace | None = None
    note: str = ""  # such as: a tool call could not be read and is given as text
    cache_miss: str = ""  # why what a conversation had before was read again: see CACHE_MISSES
    stop_sequence: str = ""  # the stop string that ended the reply, where the engine knows it
    further: tuple[str, ...] = ()  # why the further choices of a request that was passed on ended; empty text: it did not


@dataclass(frozen=True, slots=True)
class Passed:
    """A part of a reply that is passed on as it came: one server-sent event with its blank line, or a whole body."""

    data: bytes
    said: tuple[Delta, ...] = ()  # what it says, for the record
    closing: bool = False  # it may be the last: it waits until the record is on disk, and takes the receipt


Event: TypeAlias = Delta | Progress | Passed | Finished


CACHE_MISSES = ("template changed", "history rewritten", "evicted", "LoRA changed")
"""Why a continued conversation is read again."""


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What the prefix cache has done since the engine started."""

    read_tokens: int = 0  # of prompts, computed
    reused_tokens: int = 0  # of prompts, found
    held_bytes: int = 0
    limit_bytes: int = 0
    misses: Mapping[str, int] = field(default_factory=dict)  # by reason


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of unit length, one a text, and how many tokens were read."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Counted:
    """How many tokens a prompt has."""

    tokens: int
    exact: bool = True  # False: an estimate


@dataclass(frozen=True, slots=True)
class Stats:
    """What the engine does now, for `reef status`."""

    state: str  # "starting", "ready", "restarting", "failed", "stopped"
    active: int = 0
    queued: int = 0
    loras: tuple[str, ...] = ()
    restarts: int = 0
    detail: str = ""
    cache: CacheStats = field(default_factory=CacheStats)
    generated_tokens: int = 0  # of replies since the engine started, where it counts them while they are made


class Engine(ABC):
    """Computes tokens. Every implementation passes `tests/engine/contract.py`.

    Errors of all calls: `EngineError` (not there, crashed: may be tried again), `Busy` (queue full),
    `ContextOverflow`, `BadRequest` (names the field), `Unsupported` (a capability that is not declared).
    """

    @property
    @abstractmethod
    def capabilities(self) -> Capability: ...

    @property
    def wires(self) -> frozenset[str]:
        """Those on which a request can be passed on as it is: see `Forward`. None, unless the engine is another server."""
        return frozenset()

    @property
    @abstractmethod
    def model(self) -> ModelInfo: ...

    @property
    @abstractmethod
    def stats(self) -> Stats: ...

    @abstractmethod
    async def start(self) -> None:
        """Load the model; returns when it can answer."""

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Yield deltas as they are computed, then exactly one `Finished`.

        Closing the iterator early frees the place at once. Nothing is yielded before the request is valid,
        so errors of admission are raised from the first step.
        """

    async def whole(self, request: GenerateRequest) -> list[Event]:
        """All that `generate` yields, at once: for a reply that nobody wants piece by piece."""
        return [event async for event in self.generate(request)]

    @abstractmethod
    async def load_lora(self, lora: LoRA) -> None:
        """Make `lora` ready; it is verified against the base model. Raises `DataError` for one that does not fit."""

    @abstractmethod
    async def unload_lora(self, lora_id: str) -> None:
        """Free it once no sequence uses it."""

    @abstractmethod
    async def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of `text` as the engine splits it; `special` reads control tokens such as `<|im_end|>`."""

    @abstractmethod
    async def pieces(self, tokens: list[int]) -> list[bytes]:
        """The bytes that each token spells, control tokens too; those of one character may lie in several."""

    @abstractmethod
    async def render(
        self, messages: tuple[Message, ...], tools: tuple[JSONObject, ...] = (), *, add_generation_prompt: bool = True
    ) -> list[int]:
        """Token ids of a conversation under the model's own chat template."""

    async def count(self, request: GenerateRequest) -> Counted:
        """How many tokens the prompt of `request` has; an estimate where the engine cannot know."""
        if Capability.TOKEN_IDS in self.capabilities:
            return Counted(len(await self.render(request.messages, request.tools)))
        return Counted(estimated_tokens(request.messages, request.tools), exact=False)

    @abstractmethod
    async def score(self, tokens: list[int], lora: LoRA | None = None, *, priority: Priority = Priority.EVALUATION) -> list[float]:
        """Log-probability (nats, temperature 1) of each token but the first, given those before it: `len(tokens) - 1` values."""

    @abstractmethod
    async def embed(self, texts: tuple[str, ...]) -> Embedded:
        """One vector a text. Raises `Unsupported` where the model cannot pool."""
