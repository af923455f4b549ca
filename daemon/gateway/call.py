"""One inference request, whatever wire it came over, and where it belongs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from daemon.experience.sessions.grouping import SessionMatch
from daemon.frozen import dataclass
from daemon.records import JSON, JSONObject, Lineage, Message, Sampling, Step, TurnKind, new_id

SEED_LIMIT = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """What the client asked of the sampler; None is left open for the release's serving hints."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repeat_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()

    def resolve(self, defaults: Mapping[str, float]) -> Sampling:
        """Fill what is open from `defaults` (the serving hints), then from ours."""
        if self is ALL_OPEN and not defaults:
            return _OURS

        def pick(name: str, asked: float | None, ours: float) -> float:
            return asked if asked is not None else defaults.get(name, ours)

        return Sampling(
            temperature=pick("temperature", self.temperature, 1.0),
            top_p=pick("top_p", self.top_p, 1.0),
            top_k=int(pick("top_k", self.top_k, 0)),
            min_p=pick("min_p", self.min_p, 0.0),
            seed=self.seed,
            stop=self.stop,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repeat_penalty=self.repeat_penalty,
            logit_bias=self.logit_bias,
        )


ALL_OPEN = SamplingRequest()
_OURS = Sampling()


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it came, to be passed on."""

    data: bytes
    value: JSONObject  # what `data` holds
    headers: Mapping[str, str] = field(default_factory=dict)  # those of the client's that the wire needs


@dataclass(frozen=True, slots=True)
class Call:
    """A validated request: a conversation, or a plain `text` to go on with. Field by field as in `GenerateRequest`."""

    wire: str  # "chat", "completions"
    model: str  # the name that the client sent; it may name a release: MODEL@r14
    messages: tuple[Message, ...]  # as the client sent them; a plain text is the user's
    text: str | None = None
    suffix: str | None = None
    sampling: SamplingRequest = ALL_OPEN
    max_tokens: int | None = None
    tools: tuple[JSONObject, ...] = ()
    tool_choice: JSON = "auto"
    parallel_tool_calls: bool = True
    response_format: JSONObject | None = None
    top_logprobs: int | None = None
    template_values: JSONObject = field(default_factory=dict)
    stream: bool = False
    include_usage: bool = False
    choices: int = 1
    request: JSONObject = field(default_factory=dict)  # the body without its messages, as sent: goes into the record
    extra: JSONObject = field(default_factory=dict)  # fields that only some engines understand
    sent: Sent | None = None  # None: it is never passed on as it is
    size_bytes: int | None = None  # of the body that it came in: what that bounds needs no walk through the messages; None: not known

    @property
    def release(self) -> str | None:
        """The release that the model's name pins."""
        _, at, release = self.model.rpartition("@")
        return release if at else None

    def came(self, size_bytes: int, sent: Sent | None) -> Call:
        """The same call, which learns how it came; for whoever has just made it. `replace` would look at each of its fields."""
        object.__setattr__(self, "size_bytes", size_bytes)
        object.__setattr__(self, "sent", sent)
        return self

    def each(self) -> list[Call]:
        """One call a choice. A seed counts on, so that choices differ, each repeatably."""
        seed = self.sampling.seed
        if self.choices == 1 or seed is None:
            return [self] * self.choices
        first = min(seed, SEED_LIMIT - self.choices)
        return [replace(self, sampling=replace(self.sampling, seed=first + index)) for index in range(self.choices)]


def base_name(model: str) -> str:
    """Without the release that it pins."""
    name, at, _ = model.rpartition("@")
    return name if at else model


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request belongs."""

    scenario: str
    match: SessionMatch
    tags: Mapping[str, str] = field(default_factory=dict)
    receipt: str = field(default_factory=lambda: new_id("rec"))  # of the first choice

    @property
    def session(self) -> str:
        return self.match.session

    def receipt_of(self, index: int) -> str:
        return self.receipt if index == 0 else new_id("rec")

    def lineage(self, index: int) -> Lineage:
        """Further choices are replies to the first one's turn, no turns of their own."""
        mine = self.match.lineage
        if index == 0 or self.match.kind is TurnKind.ASIDE:
            return mine
        return replace(mine, step=Step.CHOICE, follows=self.receipt)
