"""POST /v1/completions, streamed and not: a text to go on with, or with `suffix` a gap to fill."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.gateway.answering import answer
from daemon.gateway.body import parsed, read_body
from daemon.gateway.gateway import Gateway
from daemon.gateway.wires.completions import CompletionReply, echoes, parse
from daemon.serving.snapshot import Snapshot

PATH = "/v1/completions"


class CompletionRoutes:
    """The completions wire, also under a scenario's own path for editors, which can set no header."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        paths = (PATH, f"/reef/scenarios/{{scenario}}{PATH}")
        return [Route(path, self.complete, methods=["POST"]) for path in paths]

    async def complete(self, request: Request) -> ASGIApp:
        read = await read_body(request)
        body, calls = read.value, await parsed(read, parse)
        if len({call.text for call in calls}) == 1:
            calls[0] = self._gateway.sent(calls[0], read, request)
        place = await self._gateway.place_text(calls, request)
        echoed = [(call.text or "") if echoes(body) else "" for call in calls]

        def form(record_id: str, snapshot: Snapshot) -> CompletionReply:
            return CompletionReply(record_id, calls[0].model, snapshot.release_id, echoed, include_usage=calls[0].include_usage)

        return await answer(self._gateway, request, calls, place, form)
