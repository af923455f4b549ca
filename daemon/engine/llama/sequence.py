"""What the scheduler computes: a sequence that generates, or a text that is scored."""

from __future__ import annotations

from dataclasses import dataclass, field

from daemon.engine.base import Delta, Priority
from daemon.engine.llama.reply import ReplyText
from daemon.engine.llama.sampling import Sampler
from daemon.engine.llama.slots import Slot
from daemon.records import JSONObject


@dataclass(slots=True)
class Job:
    """What both have: tokens to read, a LoRA, a priority, and a slot once admitted."""

    id: int
    prompt: list[int]
    lora_id: str | None
    priority: Priority
    scenario: str = ""
    session: str = ""
    slot: Slot | None = None
    read: int = 0  # tokens of the prompt that are in the slot
    cached: int = 0  # of those, how many were there before

    @property
    def unread(self) -> int:
        return len(self.prompt) - self.read


@dataclass(slots=True)
class Score(Job):
    """Log-probabilities of the prompt's own tokens."""

    values: list[float] = field(default_factory=list)

    def result(self) -> JSONObject:
        return {"type": "result", "id": self.id, "value": list(self.values)}


class Sequence(Job):
    """A reply in the making."""

    __slots__ = ("cache_miss", "completion", "finish_reason", "logprobs", "max_tokens", "reply", "sampler")

    def __init__(
        self,
        id: int,
        prompt: list[int],
        lora_id: str | None,
        priority: Priority,
        *,
        sampler: Sampler,
        reply: ReplyText,
        max_tokens: int,
        scenario: str = "",
        session: str = "",
    ) -> None:
        super().__init__(id, prompt, lora_id, priority, scenario, session)
        self.sampler = sampler
        self.reply = reply
        self.max_tokens = max_tokens
        self.completion: list[int] = []
        self.logprobs: list[float] = []
        self.finish_reason = ""
        self.cache_miss = ""

    def accept(self, token: int, logprob: float, piece: bytes, ends: bool) -> list[Delta]:
        """Add a sampled token; returns what may be shown now. Sets `finish_reason` when it was the last."""
        self.completion.append(token)
        self.logprobs.append(logprob)
        if ends:
            self.finish_reason = "stop"
            return self.reply.finish()
        shown = self.reply.push(piece)
        if self.reply.stopped:
            self.finish_reason = "stop"
        elif len(self.completion) >= self.max_tokens:
            self.finish_reason = "length"
            shown += self.reply.finish()
        return shown

    def finished(self) -> JSONObject:
        return {
            "type": "finished",
            "id": self.id,
            "finish_reason": "tool_calls" if self.reply.called and self.finish_reason == "stop" else self.finish_reason,
            "cached_tokens": self.cached,
            "cache_miss": self.cache_miss,
            "note": self.reply.note,
            "prompt": list(self.prompt),
            "completion": list(self.completion),
            "logprobs": list(self.logprobs),
        }
