"""What the scheduler computes: a reply that is generated, a text that is scored, texts that become vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from daemon.engine.base import Delta, Priority
from daemon.engine.llama.cache.slots import Slot
from daemon.engine.llama.reply import ReplyText
from daemon.engine.llama.sampling import Choice, Sampler
from daemon.records import JSON, JSONObject

POOLING = {1: "mean", 2: "first", 3: "last"}
"""How one vector is made of those of a text's tokens, by the `pooling_type` of a GGUF file."""


@dataclass(slots=True)
class Job:
    """What all have: tokens to read, a LoRA, a priority, and a slot once admitted."""

    id: int
    prompt: list[int]
    lora_id: str | None
    priority: Priority
    scenario: str = ""
    session: str = ""
    slot: Slot | None = None
    is_placed: bool = False  # the slot holds what there was of the prompt: reading may begin
    read: int = 0  # tokens of the prompt that are in the slot
    cached: int = 0  # of those, how many were there before
    is_over: bool = False  # finished or failed
    began_at: float = 0.0

    @property
    def unread(self) -> int:
        return len(self.prompt) - self.read

    @property
    def prefix(self) -> list[int]:
        """The tokens whose cells others may share."""
        return self.prompt


@dataclass(slots=True)
class Score(Job):
    """Log-probabilities of the prompt's own tokens."""

    values: list[float] = field(default_factory=list)

    @property
    def prefix(self) -> list[int]:
        """None: every token must be computed for its logits."""
        return []

    def result(self) -> JSONObject:
        return {"type": "result", "id": self.id, "value": list(self.values)}


class Embedding(Job):
    """Vectors of texts, one after another in the same slot: `prompt` is the text that is read now."""

    __slots__ = ("_pooling", "_sum", "_texts", "tokens", "vectors")

    def __init__(self, id: int, texts: list[list[int]], pooling: str) -> None:
        """`pooling`: see `POOLING`."""
        super().__init__(id, texts[0], None, Priority.LIVE)
        self._texts = texts[1:]
        self._pooling = pooling
        self._sum: NDArray[np.float64] | None = None
        self.tokens = sum(map(len, texts))
        self.vectors: list[list[float]] = []

    @property
    def prefix(self) -> list[int]:
        """None: every token must be computed for its vector."""
        return []

    def add(self, rows: NDArray[np.float32]) -> None:
        """The vectors of the next tokens, shape (tokens, width). At a text's end its own is made, and the next text's turn comes."""
        if self._pooling == "mean":
            part = rows.sum(axis=0, dtype=np.float64)
            vector = part if self._sum is None else self._sum + part
        elif self._pooling == "last" or self._sum is None:
            vector = rows[0 if self._pooling == "first" else -1].astype(np.float64)
        else:
            vector = self._sum
        self._sum = vector if self.unread else None
        if self.unread:
            return
        self.vectors.append((vector / max(float(np.linalg.norm(vector)), 1e-12)).astype(np.float32).tolist())
        if self._texts:
            self.prompt, self.read = self._texts.pop(0), 0

    def result(self) -> JSONObject:
        vectors: list[JSON] = [list(vector) for vector in self.vectors]
        return {"type": "result", "id": self.id, "value": {"vectors": vectors, "tokens": self.tokens}}


class Sequence(Job):
    """A reply in the making."""

    __slots__ = (
        "_entries",
        "_markers",
        "_reasoning",
        "cache_miss",
        "completion",
        "finish_reason",
        "logprobs",
        "max_tokens",
        "reply",
        "sampler",
        "template",
    )

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
        markers: Mapping[int, bytes] | None = None,
        template: str = "",
    ) -> None:
        """
        Args:
            markers: control tokens that the reply's parser must see, and how they are written; all others are left out.
            template: what the prompt was rendered with; another one explains why a conversation does not go on as it began.
        """
        super().__init__(id, prompt, lora_id, priority, scenario, session)
        self.sampler = sampler
        self.reply = reply
        self.max_tokens = max_tokens
        self.template = template
        self.completion: list[int] = []
        self.logprobs: list[float] = []
        self.finish_reason = ""
        self.cache_miss = ""
        self._reasoning = 0  # tokens
        self._markers = markers or {}
        self._entries: list[JSONObject] = []  # of tokens that no delta has shown yet

    def accept(self, choice: Choice, piece: bytes, ends: bool) -> list[Delta]:
        """Add a sampled token; returns what may be shown now. Sets `finish_reason` when it was the last."""
        token = choice.token
        self.completion.append(token)
        self.logprobs.append(choice.logprob)
        piece = self._markers.get(token, piece)
        if choice.entry is not None and not ends:
            self._entries.append(choice.entry)
        if ends:
            self.finish_reason = "stop"
            shown = (self.reply.push(self._markers[token]) if token in self._markers else []) + self.reply.finish()
        else:
            shown = self.reply.push(piece)
            if self.reply.stopped:
                self.finish_reason = "stop"
            elif len(self.completion) >= self.max_tokens:
                self.finish_reason = "length"
                shown = shown + self.reply.finish()
        self._reasoning += any(delta.reasoning for delta in shown)
        return self._with_entries(shown) if self._entries else shown

    def _with_entries(self, shown: list[Delta]) -> list[Delta]:
        """The first delta carries the entries that wait; the last of a reply is made for them if need be."""
        if not shown and self.finish_reason and not self.reply.stopped:
            shown = [Delta()]
        if shown:
            shown = [replace(shown[0], logprobs=tuple(self._entries)), *shown[1:]]
            self._entries = []
        return shown

    def finished(self) -> JSONObject:
        return {
            "type": "finished",
            "id": self.id,
            "finish_reason": "tool_calls" if self.reply.called and self.finish_reason == "stop" else self.finish_reason,
            "cached_tokens": self.cached,
            "reasoning_tokens": self._reasoning,
            "cache_miss": self.cache_miss,
            "note": self.reply.note,
            "stop_sequence": self.reply.stop,
            "prompt": list(self.prompt),
            "completion": list(self.completion),
            "logprobs": list(self.logprobs),
        }
