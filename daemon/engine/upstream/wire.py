"""How one wire is spoken to another server: where a request goes, what it looks like, and who reads the reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from daemon.engine.base import GenerateRequest
from daemon.engine.upstream.reader import ReplyReader
from daemon.records import JSONObject


class UpstreamWire(ABC):
    """One of `daemon.engine.upstream.wires`. Holds nothing of a request."""

    name: str
    path: str
    """Below the server's base URL."""

    @abstractmethod
    def body(self, request: GenerateRequest, model: str) -> JSONObject:
        """A streamed request for one reply, made of `request`; `model` is the server's name for it.

        Raises:
            Unsupported: the wire cannot say what is asked.
        """

    @abstractmethod
    def reader(self) -> ReplyReader:
        """For one reply, streamed or whole, to a request that `body` made or to one that is passed on."""

    def headers(self, key: str) -> Mapping[str, str]:
        """What every request carries; `key` may be empty."""
        return {"authorization": f"Bearer {key}"} if key else {}
