"""How a wire writes a reply: the frames of a stream, or one body. Each wire has its own form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from daemon.errors import ReefError
from daemon.gateway.sse import KEEP_ALIVE
from daemon.gateway.steps import Done, Piece
from daemon.records import JSONObject, Usage
from daemon.serving.snapshot import Snapshot


class ReplyForm(ABC):
    """Writes the reply to one request. Frames are whole server-sent events; an empty list sends nothing."""

    prompt_tokens: int = 0
    """Of the prompt, where that is known before the reply."""

    @property
    def keep_alive(self) -> bytes:
        """What goes out while nothing else does."""
        return KEEP_ALIVE

    @abstractmethod
    def opening(self, index: int) -> list[bytes]:
        """What begins a choice."""

    def passed(self, frame: bytes) -> None:
        """A frame of another server's stream goes out as it came. Whatever follows goes on from there."""
        return

    @abstractmethod
    def piece(self, index: int, piece: Piece) -> list[bytes]: ...

    @abstractmethod
    def closing(self, index: int, done: Done) -> list[bytes]:
        """What ends a choice while others go on."""

    @abstractmethod
    def ending(self, index: int, choices: Sequence[Done], usage: Usage, reef: JSONObject) -> list[bytes]:
        """What ends the last choice, `index`, and the stream. Every record is on disk by now; `reef` holds the receipts."""

    @abstractmethod
    def failure(self, error: ReefError, reef: JSONObject) -> list[bytes]:
        """What ends a stream that fails after it has begun; `reef` names what of it is on disk, if anything."""

    @abstractmethod
    def whole(self, choices: Sequence[Done], usage: Usage, reef: JSONObject) -> JSONObject:
        """The reply that is not streamed."""


MakeForm = Callable[[str, Snapshot], ReplyForm]
"""From the first choice's record id and the release that answers."""
