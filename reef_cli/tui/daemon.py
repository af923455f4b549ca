"""What the app knows of the daemon: its HTTP API, asked in threads so that the screen never waits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from daemon import __version__
from daemon.errors import EngineError, ReefError, Unauthorized
from reef_cli import output, running
from reef_cli.client import Client
from reef_cli.exporting import to_file
from reef_cli.locations import home

if TYPE_CHECKING:
    from daemon.records import JSONObject

_Answer = TypeVar("_Answer")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
EVENTS = "/reef/events"


@dataclass(frozen=True, slots=True)
class Change:
    """`kind`: `head`, `records`, `runs`, `engine`; or `found` (a daemon answers: all may have changed) and `lost`, which says why."""

    kind: str
    scenario: str = ""
    why: ReefError | None = None


class Daemon:
    """One home's daemon, found anew after each loss: it may come back at another port.

    All calls raise what `reef_cli.client.Client` raises; `EngineError` or `NotFound` where no daemon answers.
    """

    def __init__(self, connect: Callable[[], Client] = Client) -> None:
        self._connect = connect
        self._client: Client | None = None

    async def get(self, path: str, query: Mapping[str, str | int | None] | None = None) -> JSONObject:
        return await self.call(lambda client: client.get(path, query))

    async def post(self, path: str, body: JSONObject, scenario: str = "", *, timeout_s: float = 60.0) -> JSONObject:
        return await self.call(lambda client: client.post(path, body, scenario, timeout_s=timeout_s))

    async def delete(self, path: str) -> JSONObject:
        return await self.call(lambda client: client.delete(path))

    async def save(self, path: str, query: Mapping[str, str | int | None], out: Path) -> JSONObject:
        """A long answer into a file, complete or not there; the summary that ends it. Raises also `StorageError`."""
        return await self.call(lambda client: to_file(client.lines(path, query), out))

    async def events(self, path: str, after: int = 0) -> AsyncIterator[JSONObject]:
        """Server-sent events as they come, each with its `cursor`, until the daemon ends the stream."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[JSONObject | ReefError | None] = asyncio.Queue()
        client = await _in_thread(self._connected)
        stopped = threading.Event()

        def put(item: JSONObject | ReefError | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(queue.put_nowait, item)

        def read() -> None:
            try:
                for event in client.events(path, after, stopped.is_set):
                    put(event)
                put(None)
            except ReefError as error:
                put(error)

        threading.Thread(target=read, daemon=True, name="reef-events").start()
        try:
            while (event := await queue.get()) is not None:
                if isinstance(event, ReefError):
                    self._forget(event)
                    raise event
                yield event
        finally:
            stopped.set()

    async def changes(self) -> AsyncIterator[Change]:
        """What changes in the daemon, without end: it is looked for again while it is not there."""
        pause, told = _FIRST_PAUSE_S, ""
        while True:
            why: ReefError = EngineError("The daemon ended.", "Start it again: reef up")
            try:
                async for event in self.events(EVENTS):
                    kind, scenario = output.text(event.get("type"), ""), output.text(event.get("scenario"), "")
                    if kind == "hello":
                        pause, told = _FIRST_PAUSE_S, ""
                        yield Change("found")
                    elif kind:
                        yield Change(kind, scenario)
            except ReefError as error:
                why = error
            self._client = None
            if told != why.message:
                told = why.message
                yield Change("lost", why=why)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    @property
    def other_version(self) -> str:
        """The version of the daemon that was last connected to, where it is another than the app's; else empty."""
        client = self._client
        return client.daemon.version if client is not None and client.daemon.version != __version__ else ""

    async def is_set_up(self) -> bool:
        """Whether there is a home to start a daemon for."""
        return await asyncio.to_thread(home().config.exists)

    async def is_there(self) -> bool:
        """Whether a daemon's process runs, even if it does not answer."""
        return await asyncio.to_thread(running.find, home()) is not None

    async def start(self) -> None:
        """As `reef up`. Raises ReefError with what the daemon said."""
        from reef_cli.commands.up import start

        await _in_thread(lambda: start(home(), []))

    async def call(self, ask: Callable[[Client], _Answer]) -> _Answer:
        """What `ask` makes of the client, in a thread."""

        def answer() -> _Answer:
            try:
                return ask(self._connected())
            except ReefError as error:
                self._forget(error)
                raise

        return await _in_thread(answer)

    def _forget(self, error: ReefError) -> None:
        """Another daemon may listen there by now, or this one elsewhere."""
        if isinstance(error, EngineError | Unauthorized):
            self._client = None

    def _connected(self) -> Client:
        client = self._client
        if client is None:
            self._client = client = self._connect()
        return client


async def _in_thread(call: Callable[[], _Answer]) -> _Answer:
    """As `asyncio.to_thread`, but a call that hangs does not keep the app from ending."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Answer] = loop.create_future()

    def settle(result: _Answer | None, error: BaseException | None) -> None:
        if answer.cancelled():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 -- carried to whoever awaits it
            failure = error
        with contextlib.suppress(RuntimeError):  # the app has ended
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, daemon=True, name="reef-ask").start()
    return await answer
