"""The choices of one request: generated at the same time, each an exchange with a record of its own, ended together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from daemon.errors import ReefError
from daemon.gateway.call import Call, Place
from daemon.gateway.exchange import Exchange
from daemon.gateway.sse import Stoppable
from daemon.gateway.steps import Done, Failed, Step, Steps
from daemon.records import Inference, JSONObject
from daemon.serving.snapshot import Snapshot


class Starter(ABC):
    """Begins generations for a wire, and says what Reef adds to its replies."""

    @abstractmethod
    async def start(self, call: Call, place: Place, steps: Steps, index: int) -> Exchange:
        """Make ready choice `index`, which tells `steps`."""

    @abstractmethod
    def added(self, records: Sequence[Inference]) -> JSONObject:
        """The `reef` object of a reply; `records` has one entry a choice."""

    @abstractmethod
    def headers(self, records: Sequence[Inference]) -> dict[str, str]:
        """Headers of a reply that is not streamed, beside those that name the release."""


class Choices(Stoppable):
    """Made by `start`. Whoever holds it reads it to its end, or aborts it."""

    def __init__(self, exchanges: Sequence[Exchange], steps: Steps) -> None:
        self._exchanges = exchanges
        self._steps = steps

    @classmethod
    async def start(cls, starter: Starter, calls: Sequence[Call], place: Place) -> Choices:
        """Begin all `calls`, one a choice; if one cannot begin, none goes on. One that is passed on asks for all choices itself."""
        steps = Steps()
        exchanges: list[Exchange] = []
        try:
            for index, call in enumerate(calls):
                exchanges.append(await starter.start(call, place, steps, index))
                if not exchanges[0].alone:
                    exchanges[-1].start()
                if exchanges[0].passes:
                    break
        except BaseException:
            for exchange in exchanges:
                exchange.abort()
            raise
        return cls(exchanges, steps)

    def __len__(self) -> int:
        return len(self._exchanges)

    @property
    def snapshot(self) -> Snapshot:
        """The release that answers the first choice."""
        return self._exchanges[0].snapshot

    @property
    def record_id(self) -> str:
        """The first choice's."""
        return self._exchanges[0].record_id

    def abort(self) -> None:
        """Stop what is still being generated; harmless afterwards."""
        for exchange in self._exchanges:
            exchange.abort()

    async def next(self, timeout_s: float | None = None) -> tuple[int, Step] | None:
        """The next step of any choice, and its index; None when none came within `timeout_s`."""
        return await self._steps.next(timeout_s)

    async def finished(self) -> list[Done]:
        """Wait for the end of every choice, skipping what comes before.

        Raises:
            ReefError: the first choice that failed; the others have been stopped and have ended.
        """
        if self._exchanges[0].alone:
            end = await self._exchanges[0].run()
            if isinstance(end, Failed):
                raise end.error
            return [end]
        ended: dict[int, Done] = {}
        failure: ReefError | None = None
        left = len(self._exchanges)
        while left:
            found = await self._steps.next()
            if found is None:
                continue
            index, step = found
            if isinstance(step, Done):
                ended[index] = step
                left -= 1
            elif isinstance(step, Failed):
                failure = failure or step.error
                left -= 1
                self.abort()
        if failure is not None:
            raise failure
        return [ended[index] for index in range(len(self._exchanges))]


def said_of(records: Sequence[Inference]) -> JSONObject:
    """What the engine has to say of the first reply of which it has something to say."""
    found: JSONObject = {}
    for name, texts in (("note", [record.note for record in records]), ("cache_miss", [record.cache_miss for record in records])):
        if any(texts):
            found[name] = next(text for text in texts if text)
    return found
