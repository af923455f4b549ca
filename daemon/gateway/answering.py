"""The response to a call: whole or as a stream of events, whatever the wire; the wire gives the form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.gateway.call import Call, Place
from daemon.gateway.choices import Choices, Starter
from daemon.gateway.errors import json_response
from daemon.gateway.passing import with_receipt
from daemon.gateway.sse import KEEP_ALIVE_S, EventStream, Frames, unless_hung_up
from daemon.gateway.steps import Done, Failed, Frame, Piece, Reading, Step
from daemon.gateway.wires.form import MakeForm, ReplyForm
from daemon.observing.request_facts import note_error
from daemon.records import Inference, JSONObject, Usage
from daemon.serving.snapshot import Snapshot


async def answer(starter: Starter, request: Request, calls: Sequence[Call], place: Place, make_form: MakeForm) -> ASGIApp:
    """The response to `calls`, one a choice; streamed if the first asks for that.

    Raises:
        ReefError: the request was refused; nothing has been sent.
        ClientGone: the client hung up before that was known.
    """
    choices = await Choices.start(starter, calls, place)
    try:
        if not calls[0].stream:
            return await _whole(starter, request, choices, make_form, calls)
        first = await unless_hung_up(request.receive, choices.next(KEEP_ALIVE_S))
        if first is not None and isinstance(first[1], Failed):
            raise first[1].error
    except BaseException:
        choices.abort()
        raise
    frames = _ChoiceFrames(starter, choices, make_form(choices.record_id, choices.snapshot), first, calls)
    return EventStream(frames, release_headers(choices.snapshot))


async def _whole(starter: Starter, request: Request, choices: Choices, make_form: MakeForm, calls: Sequence[Call]) -> ASGIApp:
    ended = await unless_hung_up(request.receive, choices.finished(), choices)
    records = [record for done in ended for record in (done.inference, *done.further)]
    headers = {**release_headers(choices.snapshot), **starter.headers(records)}
    if ended[0].held:
        return _AsItCame(ended[0].held[0], headers)
    form = make_form(choices.record_id, choices.snapshot)
    return json_response(form.whole(ended, total_usage(records, calls), starter.added(records)), headers=headers)


class _AsItCame:
    """A whole reply that is passed on."""

    def __init__(self, body: bytes, headers: Mapping[str, str]) -> None:
        self._body = body
        own = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        self._headers = own + [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


class _ChoiceFrames(Frames):
    """The events of one stream; the choices' pieces come as they are generated, each with its index."""

    def __init__(self, starter: Starter, choices: Choices, form: ReplyForm, first: tuple[int, Step] | None, calls: Sequence[Call]) -> None:
        self._starter = starter
        self._choices = choices
        self._form = form
        self._first = first
        self._calls = calls
        self._hung_up = False

    def abort(self) -> None:
        self._hung_up = True
        self._choices.abort()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        form, found, begun = self._form, self._first, set[int]()
        ended: dict[int, Done] = {}
        while not self._hung_up:
            if found is None:
                yield form.keep_alive
            elif isinstance(found[1], Failed):
                note_error(found[1].error)
                for frame in form.failure(found[1].error, await self._kept(found[1], found[0], ended)):
                    yield frame
                return
            else:
                index, step = found
                for frame in self._written(index, step, begun, ended):
                    yield frame
                if len(ended) == len(self._choices):
                    return
            found = await self._telling()

    def _written(self, index: int, step: Step, begun: set[int], ended: dict[int, Done]) -> list[bytes]:
        """The frames of one step."""
        form = self._form
        frames: list[bytes] = []
        if isinstance(step, Frame):
            form.passed(step.data)
            return [step.data]
        if isinstance(step, Done) and step.held:
            ended[index] = step
            return with_receipt(step.held, self._starter.added([step.inference, *step.further]))
        if isinstance(step, Reading):
            form.prompt_tokens = step.prompt_tokens
        if index not in begun:
            begun.add(index)
            frames += form.opening(index)
        if isinstance(step, Piece):
            frames += form.piece(index, step)
        elif isinstance(step, Done):
            ended[index] = step
            if len(ended) < len(self._choices):
                return frames + form.closing(index, step)
            choices = [ended[at] for at in range(len(ended))]
            records = [done.inference for done in choices]
            frames += form.ending(index, choices, total_usage(records, self._calls), self._starter.added(records))
        return frames

    async def _kept(self, failed: Failed, index: int, ended: Mapping[int, Done]) -> JSONObject:
        """One choice has failed, so the others are stopped. Names what of all of them is on disk."""
        self._choices.abort()
        records = {at: done.inference for at, done in ended.items()}
        if failed.recorded is not None:
            records.update(enumerate((failed.recorded, *failed.further), index))
        left = len(self._choices) - 1 - sum(other != index for other in ended)
        while left > 0:
            found = await self._choices.next()
            if found is None or not isinstance(found[1], Done | Failed):
                continue
            left -= 1
            kept = found[1].inference if isinstance(found[1], Done) else found[1].recorded
            if kept is not None:
                records[found[0]] = kept
        return self._starter.added([records[at] for at in sorted(records)]) if records else {}

    async def _telling(self) -> tuple[int, Step] | None:
        """The next step that sends something; None when nothing has been sent for so long that a sign of life is due."""
        clock = asyncio.get_running_loop().time
        due = clock() + KEEP_ALIVE_S
        found = await self._choices.next(KEEP_ALIVE_S)
        while found is not None and isinstance(found[1], Reading):
            found = await self._choices.next(due - clock())
        return found


def release_headers(snapshot: Snapshot) -> dict[str, str]:
    """Which release answered."""
    return {"x-reef-release-id": snapshot.release_id, "x-reef-artifact-version": snapshot.content_id or snapshot.release_id}


def total_usage(records: Sequence[Inference], calls: Sequence[Call]) -> Usage:
    """Completions add up; the tokens of a prompt count once, however many choices it has."""
    prompts: dict[str | None, Usage] = {}
    for record, call in zip(records, calls, strict=True):
        prompts.setdefault(call.text, record.usage)
    return Usage(
        sum(usage.prompt_tokens for usage in prompts.values()),
        sum(record.usage.completion_tokens for record in records),
        sum(usage.cached_tokens for usage in prompts.values()),
        sum(record.usage.reasoning_tokens for record in records),
    )
