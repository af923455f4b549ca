"""What an export writes: the turns of one session with their feedback, and the dialogues that they make up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from daemon.records import Inference, JSONObject, Message, Report


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its reply."""

    inference: Inference
    reports: tuple[Report, ...] = ()  # oldest first
    parent: int | None = None  # the place, in the conversation, of the turn that it goes on from
    first: int = 0  # the place of the first turn with the same request, perhaps its own

    @property
    def score(self) -> float | None:
        """The latest score that a report gave."""
        return next((report.score for report in reversed(self.reports) if report.score is not None), None)

    @property
    def correction(self) -> Message | None:
        """The reply as the user would have had it, from the latest report that says so."""
        text = next((report.correction for report in reversed(self.reports) if report.correction is not None), None)
        return None if text is None else {"role": "assistant", "content": text}

    @property
    def accepted(self) -> Message | None:
        """What is worth learning: the correction, else a reply that was scored above zero."""
        if self.correction is not None:
            return self.correction
        return self.inference.reply if self.score is not None and self.score > 0 else None


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session. Asides, failed and broken off requests are left out."""

    scenario: str
    session: str
    turns: tuple[Exchange, ...]

    def dialogues(self, good_only: bool) -> Iterator[Dialogue]:
        """Each line of the conversation to its end; with `good_only` each accepted reply with what stands before it."""
        if good_only:
            for number, turn in enumerate(self.turns):
                if turn.accepted is not None:
                    yield Dialogue(self, number, turn.accepted)
            return
        gone_on = {turn.parent for turn in self.turns}
        taken = {turn.first for number, turn in enumerate(self.turns) if number in gone_on}
        for number, turn in enumerate(self.turns):
            if number not in gone_on and turn.first not in taken:  # of several replies to a request the one that was taken up
                yield Dialogue(self, number, turn.inference.reply)


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Messages in one row, the last of which is `reply`."""

    conversation: Conversation
    last: int
    reply: Message

    @property
    def turn(self) -> Exchange:
        return self.conversation.turns[self.last]

    @property
    def prompt(self) -> tuple[Message, ...]:
        return self.turn.inference.messages

    @property
    def replies(self) -> dict[int, Exchange]:
        """The turns of this row, by the place of their reply among its messages."""
        found = {len(self.prompt): self.turn}
        number = self.turn.parent
        while number is not None:
            turn = self.conversation.turns[number]
            found.setdefault(len(turn.inference.messages), turn)
            number = turn.parent
        return found


class Format(ABC):
    """A way to write conversations as lines of JSON. `schema` is the file that says what a line holds."""

    name: ClassVar[str]

    @abstractmethod
    def lines(self, conversation: Conversation, good_only: bool) -> Iterator[JSONObject]:
        """The lines of one session."""
