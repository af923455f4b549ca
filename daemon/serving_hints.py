"""Serving hints: the part of a harness that the gateway applies to a request."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from daemon.records import Message

_SAMPLING: Final = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0), "top_k": (0.0, float(1 << 20)), "min_p": (0.0, 1.0)}
"""What hints may set, and between which bounds; no other number, and none that is no number, gets into a request."""


class Demonstration(BaseModel):
    """One exchange shown before the user's own messages."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str
    reply: str
    source: str = ""
    """The receipt that it came from."""


class ServingHints(BaseModel):
    """The content of `serving.json`. Empty hints leave a request as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system_prefix: str = ""
    """Goes before the client's own system text."""
    demonstrations: tuple[Demonstration, ...] = ()
    sampling: dict[str, float] = Field(default_factory=dict)
    """Defaults for what the client leaves open: temperature, top_p, top_k, min_p."""

    @field_validator("sampling")
    @classmethod
    def _within_bounds(cls, sampling: dict[str, float]) -> dict[str, float]:
        for name, value in sampling.items():
            if name not in _SAMPLING:
                raise ValueError(f"{name!r} is none of {', '.join(_SAMPLING)}")
            least, most = _SAMPLING[name]
            if not least <= value <= most:
                raise ValueError(f"{name} must be between {least:g} and {most:g}")
        return sampling

    def apply(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The effective prompt: prefix and demonstrations after the client's leading system messages, then the conversation.

        Deterministic, so that a continued conversation keeps its prefix.
        """
        if not self.system_prefix and not self.demonstrations:
            return messages
        head = 0
        while head < len(messages) and messages[head].get("role") in ("system", "developer"):
            head += 1
        leading = list(messages[:head])
        if self.system_prefix:
            leading.insert(0, {"role": "system", "content": self.system_prefix})
        shown: list[Message] = []
        for demonstration in self.demonstrations:
            shown.append({"role": "user", "content": demonstration.prompt})
            shown.append({"role": "assistant", "content": demonstration.reply})
        return (*leading, *shown, *messages[head:])
