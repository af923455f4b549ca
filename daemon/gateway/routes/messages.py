"""POST /v1/messages, streamed and not, and /v1/messages/count_tokens: Anthropic's wire."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.engine.base import Capability
from daemon.gateway.answering import answer
from daemon.gateway.body import read_body
from daemon.gateway.call import Call
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import Gateway
from daemon.gateway.sse import unless_hung_up
from daemon.gateway.wires.form import MakeForm
from daemon.gateway.wires.messages.reply import MessagesReply
from daemon.gateway.wires.messages.request import check_last, parse, thinking_of
from daemon.records import JSONObject

PATH = "/v1/messages"
_PARSE_IN_THREAD_BYTES = 256 << 10
_PASSED_HEADERS = ("anthropic-version", "anthropic-beta")


class MessageRoutes:
    """The messages wire, also under a scenario's own path for clients that can set no header."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        routes: list[Route] = []
        for prefix in ("", "/reef/scenarios/{scenario}"):
            routes.append(Route(f"{prefix}{PATH}", self.create, methods=["POST"]))
            routes.append(Route(f"{prefix}{PATH}/count_tokens", self.count, methods=["POST"]))
        return routes

    async def create(self, request: Request) -> ASGIApp:
        body = await read_body(request)
        parsed = await asyncio.to_thread(parse, body.value) if len(body.data) > _PARSE_IN_THREAD_BYTES else parse(body.value)
        call = self._gateway.sent(for_engine(parsed, self._gateway.capabilities), body, request, *_PASSED_HEADERS)
        if call.sent is None:  # another server of this wire judges for itself
            check_last(call)
        place = await self._gateway.place(call, request)
        return await answer(self._gateway, request, [call], place, form_of(call, body.value))

    async def count(self, request: Request) -> Response:
        body = await read_body(request)
        call = self._gateway.sent(parse(body.value, counting=True), body, request, *_PASSED_HEADERS)
        counted = await unless_hung_up(request.receive, self._gateway.count(call, request))
        answered: JSONObject = {"input_tokens": counted.tokens}
        if not counted.exact:
            answered["reef"] = {"estimated": True}
        return json_response(answered)


def for_engine(call: Call, capabilities: Capability) -> Call:
    """Variables of the chat template are for an engine that renders it; another server may refuse a field that it does not know."""
    return call if Capability.TOKEN_IDS in capabilities else replace(call, template_values={})


def form_of(call: Call, body: JSONObject) -> MakeForm:
    thinking = thinking_of(body)
    return lambda record_id, _: MessagesReply(record_id, call.model, thinking)
