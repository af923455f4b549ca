"""One inference request, whatever wire it came over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.records import JSONObject, Message, Sampling


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

    def resolve(self, defaults: Mapping[str, float]) -> Sampling:
        """Fill what is open from `defaults` (the serving hints), then from ours."""

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
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A validated request, in chat form."""

    wire: str  # "chat"
    model: str  # the name that the client sent; it may name a release: MODEL@r14
    messages: tuple[Message, ...]  # as the client sent them
    sampling: SamplingRequest = field(default_factory=SamplingRequest)
    max_tokens: int | None = None
    tools: tuple[JSONObject, ...] = ()
    stream: bool = False
    include_usage: bool = False
    choices: int = 1
    request: JSONObject = field(default_factory=dict)  # the body without its messages, as sent: goes into the record
    extra: JSONObject = field(default_factory=dict)  # fields that only some engines understand

    @property
    def release(self) -> str | None:
        """The release that the model's name pins."""
        _, at, release = self.model.rpartition("@")
        return release if at else None

    @property
    def base_model(self) -> str:
        name, at, _ = self.model.rpartition("@")
        return name if at else self.model
