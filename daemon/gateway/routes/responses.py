"""POST /v1/responses, streamed and not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.errors import ReefError
from daemon.gateway.answering import answer
from daemon.gateway.body import parsed, read_body
from daemon.gateway.gateway import Gateway
from daemon.gateway.wires.form import MakeForm
from daemon.gateway.wires.responses.reply import ResponsesReply
from daemon.gateway.wires.responses.request import check_choice, parse
from daemon.records import JSONObject

PATH = "/v1/responses"
_NAMES = {"messages": "input", "max_tokens": "max_output_tokens", "response_format": "text.format", "logprobs": "top_logprobs"}


class ResponseRoutes:
    """The responses wire, also under a scenario's own path for clients that can set no header."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        paths = (PATH, f"/reef/scenarios/{{scenario}}{PATH}")
        return [Route(path, self.respond, methods=["POST"]) for path in paths]

    async def respond(self, request: Request) -> ASGIApp:
        body = await read_body(request)
        call = self._gateway.sent(await parsed(body, parse), body, request)
        if call.sent is None:
            check_choice(call)
        with own_names():
            place = await self._gateway.place(call, request)
            return await answer(self._gateway, request, call.each(), place, form_of(body.value))


@contextlib.contextmanager
def own_names() -> Iterator[None]:
    """Errors of the engine name its fields as the chat wire does; they leave here under this wire's names."""
    try:
        yield
    except ReefError as error:
        error.param = _NAMES.get(error.param or "", error.param)
        raise


def form_of(body: JSONObject) -> MakeForm:
    return lambda record_id, _: ResponsesReply(record_id, body)
