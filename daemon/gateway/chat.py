"""POST /v1/chat/completions, streamed and not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.errors import ReefError
from daemon.gateway.body import read_json
from daemon.gateway.call import Call
from daemon.gateway.errors import Shape, error_object, json_response
from daemon.gateway.exchange import Done, Exchange, Failed, Piece, Reading, Step
from daemon.gateway.gateway import Gateway, Place, Starter, release_headers
from daemon.gateway.sse import DONE, KEEP_ALIVE, KEEP_ALIVE_S, EventStream, Frames, data_frame, finish_or_abort
from daemon.gateway.wire_chat import ChatReply, parse
from daemon.records import Inference, Usage

PATH = "/v1/chat/completions"


class ChatRoutes:
    """The chat wire, also under a scenario's own path for clients that can set no header."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        paths = (PATH, f"/reef/scenarios/{{scenario}}{PATH}")
        return [Route(path, self.complete, methods=["POST"]) for path in paths]

    async def complete(self, request: Request) -> ASGIApp:
        call = parse(await read_json(request))
        place = await self._gateway.place(call, request)
        return await answer(self._gateway, request, call, place)


async def answer(starter: Starter, request: Request, call: Call, place: Place) -> ASGIApp:
    """The response to a parsed call, streamed if it asks for that."""
    if not call.stream:
        return await _whole(starter, request, call, place)
    exchange = await starter.start(call, place)
    first = await exchange.next(KEEP_ALIVE_S)
    if isinstance(first, Failed):
        raise first.error
    return EventStream(_ChatFrames(starter, call, place, exchange, first), release_headers(exchange.snapshot))


async def _whole(starter: Starter, request: Request, call: Call, place: Place) -> Response:
    records: list[Inference] = []
    headers: dict[str, str] = {}
    for _ in range(call.choices):
        exchange = await starter.start(call, place)
        headers = headers or release_headers(exchange.snapshot)
        end = await finish_or_abort(request.receive, exchange)
        if isinstance(end, Failed):
            raise end.error
        records.append(end.inference)
    first = records[0]
    choices = [(record.reply, record.finish_reason) for record in records]
    reply = ChatReply(reply_id(first.id), call.model, first.release_id)
    body = reply.completion(choices, total_usage(records), starter.added(records))
    return json_response(body, headers={**headers, **starter.headers(records)})


class _ChatFrames(Frames):
    """The chunks of one streamed completion; further choices follow one another."""

    def __init__(self, starter: Starter, call: Call, place: Place, exchange: Exchange, first: Step | None) -> None:
        self._starter = starter
        self._call = call
        self._place = place
        self._exchange = exchange
        self._first = first
        self._aborted = False

    def abort(self) -> None:
        self._aborted = True
        self._exchange.abort()

    async def frames(self) -> AsyncIterator[bytes]:
        reply = ChatReply(reply_id(self._exchange.record_id), self._call.model, self._exchange.snapshot.release_id)
        records: list[Inference] = []
        for index in range(self._call.choices):
            async for frame in self._choice(reply, index, records):
                yield frame
            if self._aborted:
                return
            if len(records) <= index:  # it failed, and has said so
                yield DONE
                return
        if self._call.include_usage:
            yield data_frame(reply.usage_chunk(total_usage(records)))
        yield data_frame(reply.receipt_chunk(self._starter.added(records)))
        yield DONE

    async def _choice(self, reply: ChatReply, index: int, records: list[Inference]) -> AsyncIterator[bytes]:
        """One choice to its end; a failure ends with an error event and adds no record."""
        step, self._first = self._first, None
        if index:
            try:
                self._exchange = await self._starter.start(self._call, self._place)
            except ReefError as error:
                yield data_frame(error_object(error, Shape.OPENAI))
                return
            if self._aborted:  # while it was being started
                self._exchange.abort()
        begun = False
        while True:
            if step is None:
                yield KEEP_ALIVE
            elif not begun and not isinstance(step, Failed):
                begun = True
                yield data_frame(reply.chunk(index, {"role": "assistant", "content": ""}))
            match step:
                case Piece(delta) if delta:
                    yield data_frame(reply.chunk(index, delta))
                case Done(inference):
                    records.append(inference)
                    yield data_frame(reply.chunk(index, {}, inference.finish_reason))
                    return
                case Failed(failure, recorded):
                    body = error_object(failure, Shape.OPENAI)
                    yield data_frame({**body, "reef": self._starter.added([recorded])} if recorded else body)
                    return
            step = await self._telling()

    async def _telling(self) -> Step | None:
        """The next step that sends something; None when nothing has been sent for so long that a sign of life is due."""
        clock = asyncio.get_running_loop().time
        due = clock() + KEEP_ALIVE_S
        step = await self._exchange.next(KEEP_ALIVE_S)
        while isinstance(step, Reading):
            step = await self._exchange.next(due - clock())
        return step


def reply_id(record_id: str) -> str:
    """The reply's id; agents keep it, and it names the record."""
    return f"chatcmpl-{record_id.rpartition('_')[2]}"


def total_usage(records: list[Inference]) -> Usage:
    """Prompt tokens count once, completions add up."""
    first = records[0].usage
    return Usage(first.prompt_tokens, sum(record.usage.completion_tokens for record in records), first.cached_tokens)
