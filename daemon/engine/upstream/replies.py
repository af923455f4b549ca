"""A reply of another server as events: translated, or passed on with what it says beside."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from daemon.engine.base import Delta, Passed
from daemon.engine.upstream.bodies import read_whole
from daemon.engine.upstream.connection import Connection
from daemon.engine.upstream.events import EventSplitter, ServerEvent
from daemon.engine.upstream.json_reading import read_value
from daemon.engine.upstream.reader import ReplyReader
from daemon.errors import EngineError

EVENT_STREAM = "text/event-stream"


async def translated(answer: Connection, reader: ReplyReader) -> AsyncGenerator[Delta, None]:
    """The deltas of a streamed reply."""
    async with contextlib.aclosing(_events(answer)) as events:
        async for event in events:
            for delta in _said(reader, event):
                yield delta


async def passed(answer: Connection, reader: ReplyReader) -> AsyncGenerator[Passed, None]:
    """The events of a streamed reply as they are, and what they say. What says that it failed is raised and not passed on.

    Raises:
        EngineError: it is no stream.
    """
    if answer.content_type != EVENT_STREAM:
        raise EngineError("The upstream does not stream.", "Check that engine.url leads to a server that does.")
    async with contextlib.aclosing(_events(answer)) as events:
        async for event in events:
            said = tuple(_said(reader, event))
            yield Passed(event.frame, said, reader.closing and bool(event.data))


async def passed_whole(answer: Connection, reader: ReplyReader) -> Passed:
    """A reply that is not streamed as it is, and what it says.

    Raises:
        EngineError: it is a stream, or no reply.
    """
    if answer.content_type == EVENT_STREAM:
        raise EngineError("The upstream streams where it was not asked to.", "Look at its log.")
    body = await read_whole(answer)
    value = read_value(body)
    if not isinstance(value, dict):
        raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
    return Passed(body, tuple([event for event in reader.take_whole(value) if isinstance(event, Delta)]), closing=True)


async def _events(answer: Connection) -> AsyncGenerator[ServerEvent, None]:
    splitter = EventSplitter()
    async for block in answer.blocks():
        for event in splitter.feed(block):
            yield event
    for event in splitter.rest():
        yield event


def _said(reader: ReplyReader, event: ServerEvent) -> list[Delta]:
    return [delta for data in event.data if data for delta in reader.take(data) if isinstance(delta, Delta)]
