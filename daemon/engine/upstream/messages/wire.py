"""Anthropic's messages wire, as another server speaks it."""

from __future__ import annotations

from collections.abc import Mapping

from daemon.engine.base import GenerateRequest
from daemon.engine.upstream.messages.reply import MessagesReader
from daemon.engine.upstream.messages.request import body_of
from daemon.engine.upstream.reader import ReplyReader
from daemon.engine.upstream.wire import UpstreamWire
from daemon.records import JSONObject

COUNT_PATH = "messages/count_tokens"
_VERSION = "2023-06-01"
_ANTHROPICS_OWN = "sk-ant-"


class MessagesWire(UpstreamWire):
    name, path = "messages", "messages"

    def body(self, request: GenerateRequest, model: str) -> JSONObject:
        return body_of(request, model)

    def reader(self) -> ReplyReader:
        return MessagesReader()

    def headers(self, key: str) -> Mapping[str, str]:
        """Anthropic wants its keys in a header of its own, and only there; other servers look here or there."""
        found = {"anthropic-version": _VERSION}
        if key:
            found["x-api-key"] = key
            if not key.startswith(_ANTHROPICS_OWN):
                found["authorization"] = f"Bearer {key}"
        return found
