"""Understanding another server's reply on one of the wires: to translate it, or to record it while it is passed on unchanged."""

from __future__ import annotations

from abc import ABC, abstractmethod

from daemon.engine.base import Event, Finished
from daemon.records import JSONObject


class ReplyReader(ABC):
    """Takes one reply in, event by event or whole. Errors of `take` and `take_whole`: `ReefError`, when the server says that it failed,
    or says what is no reply."""

    @abstractmethod
    def take(self, data: str) -> list[Event]:
        """The deltas in one server-sent event; `data` is what its `data:` lines hold."""

    @abstractmethod
    def take_whole(self, body: JSONObject) -> list[Event]:
        """The deltas of a reply that is not streamed."""

    @property
    @abstractmethod
    def closing(self) -> bool:
        """Whether what was taken last may end the reply: passed on, it waits until the record is on disk, and the last such event takes
        the receipt."""

    @abstractmethod
    def finished(self) -> Finished:
        """The end of a reply that came whole. Raises `EngineError` if it broke off before that."""
