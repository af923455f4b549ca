"""POST /v1/chat/completions, streamed and not."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.gateway.answering import answer
from daemon.gateway.body import parsed, read_body
from daemon.gateway.call import Call
from daemon.gateway.gateway import Gateway
from daemon.gateway.wires.chat import ChatReply, parse
from daemon.gateway.wires.form import MakeForm

PATH = "/v1/chat/completions"


class ChatRoutes:
    """The chat wire, also under a scenario's own path for clients that can set no header."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        paths = (PATH, f"/reef/scenarios/{{scenario}}{PATH}")
        return [Route(path, self.complete, methods=["POST"]) for path in paths]

    async def complete(self, request: Request) -> ASGIApp:
        body = await read_body(request)
        call = self._gateway.sent(await parsed(body, parse), body, request)
        place = await self._gateway.place(call, request)
        return await answer(self._gateway, request, call.each(), place, form_of(call))


def form_of(call: Call) -> MakeForm:
    return lambda record_id, snapshot: ChatReply(record_id, call.model, snapshot.release_id, include_usage=call.include_usage)
