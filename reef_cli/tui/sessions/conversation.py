"""The turns of one session, as many as were read: a part of it without gaps, which grows at both ends as a person reads on."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from reef_cli import output
from reef_cli.client import scenario_path
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.sessions.blocks import Words
from reef_cli.tui.sessions.trajectory import Remembered, rows_of
from reef_cli.tui.widgets.feed import Row

if TYPE_CHECKING:
    from daemon.records import JSONObject

PAGE = 60
_AGAIN = 20
"""Turns at the end that are read again when something new came: the next turn tells of those before it."""


class Conversation:
    def __init__(self, daemon: Daemon, scenario: str, session: str) -> None:
        self.session = session
        self.summary: JSONObject = {}
        self.turns: list[JSONObject] = []
        self.first = 0
        """The place of the first turn that was read, in the whole session."""
        self.all = 0
        self.opened: set[str] = set()
        """The keys of those blocks that are not folded."""
        self._made: dict[str, Remembered] = {}
        self._daemon = daemon
        self._path = scenario_path(scenario, "sessions", session)

    @property
    def behind(self) -> int:
        """The place behind the last turn that was read."""
        return self.first + len(self.turns)

    async def read(self, *, at_end: bool) -> None:
        """Its first turns or its last ones. Raises `NotFound` where it is gone."""
        answer = await self._ask(None if at_end else 0)
        self.turns, self.first = output.rows(answer, "turns"), _number(answer, "first")

    async def more(self, *, top: bool) -> bool:
        """Read on at one end. False: that is the end of it."""
        if top:
            if self.first == 0:
                return False
            start = max(0, self.first - PAGE)
            answer = await self._ask(start, self.first - start)
            self.turns, self.first = output.rows(answer, "turns") + self.turns, start
            self._made.clear()  # results may find the names of their tools now
            return True
        if self.behind >= self.all:
            return False
        self.turns += output.rows(await self._ask(self.behind), "turns")
        return True

    async def refresh(self) -> None:
        """What came since, if the end was read before; and what is said of the last turns now."""
        start = max(self.first, self.behind - _AGAIN)
        was_whole = self.behind >= self.all
        answer = await self._ask(start, PAGE + _AGAIN if was_whole else max(1, self.behind - start))
        self.turns[start - self.first :] = output.rows(answer, "turns")

    async def refresh_turn(self, place: int) -> None:
        """What is said of one turn now."""
        answer = await self._ask(place, 1)
        self.turns[place - self.first : place - self.first + 1] = output.rows(answer, "turns")

    def turn(self, place: int) -> JSONObject | None:
        return self.turns[place - self.first] if self.first <= place < self.behind else None

    def rows(self) -> list[Row]:
        found = rows_of(self.turns, self.first, self.opened, self._made)
        if self.first:
            found.insert(0, Words("above", f"… {self.first} before"))
        if self.behind < self.all:
            found.append(Words("below", f"… {self.all - self.behind} more"))
        return found

    def turn_folds(self, keys: Collection[str]) -> None:
        """Open these blocks, or fold them where all of them are open."""
        if self.opened.issuperset(keys):
            self.opened.difference_update(keys)
        else:
            self.opened.update(keys)

    async def _ask(self, start: int | None, limit: int = PAGE) -> JSONObject:
        answer = await self._daemon.get(self._path, {"from": start, "limit": limit})
        self.all = _number(answer, "all")
        self.summary = {name: value for name, value in answer.items() if name != "turns"}
        return answer


def _number(answer: JSONObject, name: str) -> int:
    value = answer.get(name)
    return value if isinstance(value, int) else 0
