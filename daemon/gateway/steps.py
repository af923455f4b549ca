"""What a generation tells while it goes on, and the queue in which those of one request tell it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeAlias

from daemon.errors import ReefError
from daemon.frozen import dataclass
from daemon.records import Inference, JSONObject


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the reply, in OpenAI delta form, and the log-probabilities of its tokens where they were asked for."""

    delta: JSONObject
    logprobs: tuple[JSONObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """A part of the reply that is passed on as it came: whole server-sent events."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """The prompt is valid and is being read."""

    prompt_tokens: int = 0  # 0: not known yet


@dataclass(frozen=True, slots=True)
class Done:
    """The generation ended and its record is on disk. `inference` is the reply as the client gets it, secrets included."""

    inference: Inference
    logprobs: tuple[JSONObject, ...] = ()  # of the whole reply
    stop_sequence: str = ""  # the stop text that ended the reply, where the engine says so
    further: tuple[Inference, ...] = ()  # the other choices of a request that was passed on
    held: tuple[bytes, ...] = ()  # of a reply that is passed on: what ends it, or all of it where it is not streamed


@dataclass(frozen=True, slots=True)
class Failed:
    """The generation failed; `recorded` is its beginning, if that is on disk."""

    error: ReefError
    recorded: Inference | None = None
    further: tuple[Inference, ...] = ()  # as `Done.further`


_WAITING_BYTES = 1 << 20
_STEP_BYTES = 512

Step: TypeAlias = Piece | Frame | Reading | Done | Failed


class Steps:
    """Steps of all choices of a request, each with the choice's index, in the order in which they happen. One reader."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Step]] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._bytes = 0  # of what waits, about
        self._writers: list[asyncio.Future[None]] = []

    @property
    def full(self) -> bool:
        """Whether more waits for a slow reader than there should. Whoever can wait then waits for `room`."""
        return self._bytes > _WAITING_BYTES

    async def room(self) -> None:
        """Return when the reader has taken enough."""
        while self.full:
            writer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            await writer

    def put(self, index: int, step: Step) -> None:
        self._waiting.append((index, step))
        self._bytes += _size(step)
        if self._reader is not None:
            _wake(self._reader)

    async def next(self, timeout_s: float | None = None) -> tuple[int, Step] | None:
        """The next step; None when none came within `timeout_s`.

        `asyncio.wait_for` would start a task for each token.
        """
        if not self._waiting:
            loop = asyncio.get_running_loop()
            reader = self._reader = loop.create_future()
            timer = loop.call_later(max(0.0, timeout_s), _wake, reader) if timeout_s is not None else None
            try:
                await reader
            finally:
                self._reader = None
                if timer is not None:
                    timer.cancel()
        if not self._waiting:
            return None
        found = self._waiting.popleft()
        self._bytes -= _size(found[1])
        if self._writers and not self.full:
            for writer in self._writers:
                _wake(writer)
            self._writers.clear()
        return found


def _size(step: Step) -> int:
    return len(step.data) if isinstance(step, Frame) else _STEP_BYTES


def _wake(reader: asyncio.Future[None]) -> None:
    if not reader.done():
        reader.set_result(None)
