"""The responses wire as it is spoken to another server."""

from __future__ import annotations

from daemon.engine.base import GenerateRequest
from daemon.engine.upstream.reader import ReplyReader
from daemon.engine.upstream.responses.reply import ResponsesReader
from daemon.engine.upstream.responses.request import body_of
from daemon.engine.upstream.wire import UpstreamWire
from daemon.records import JSONObject


class ResponsesWire(UpstreamWire):
    name, path = "responses", "responses"

    def body(self, request: GenerateRequest, model: str) -> JSONObject:
        return body_of(request, model)

    def reader(self) -> ReplyReader:
        return ResponsesReader()
