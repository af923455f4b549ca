"""The reader of most families: reasoning between two markers, then text in which markers open calls.

What the reader promises, whatever the model writes and however it is cut into pieces:

- Every character comes out once: as reasoning, as text, or inside a call. Only markers, and white space beside them, are left out.
- A call is shown when it is complete, names a tool of the request and has a JSON object for arguments. Till then it is held back:
  a name that was shown could not be taken back. Anything else comes out as the text that it is, with a note.
- The work is linear in the length of the reply.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from daemon.engine.base import Delta
from daemon.engine.llama.formats.base import Parser
from daemon.engine.llama.formats.calls import Call, functions
from daemon.engine.llama.formats.source import Malformed, Markers, Source
from daemon.records import JSONObject

THINK = ("<think>", "</think>")

Calls: TypeAlias = Generator[tuple[Call, ...] | None, None, None]
"""Reads what follows an opening marker: yields calls that belong together when they are complete, None where it needs more text."""

Shown: TypeAlias = Generator[Delta | None, None, None]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a reader of calls may know: the tools by name, with the schema of their arguments, and which marker it follows."""

    source: Source
    tools: dict[str, JSONObject]
    marker: str


ReadCalls: TypeAlias = Callable[[Scope], Calls]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a family marks things."""

    openings: dict[str, ReadCalls]
    """What opens calls, and what reads them from there on."""
    starts: dict[str, ReadCalls] = field(default_factory=dict)
    """The same, for what means a call at the beginning of the text or after another call only."""
    reasoning: tuple[str, str] = THINK
    """What is around reasoning. `<think>` is read everywhere beside it."""
    interrupts: tuple[str, ...] = ()
    """Openings that end reasoning too: control tokens that no model muses about."""
    dropped: tuple[str, ...] = ()
    """Markers around plain text, which mean nothing to a client."""


class StepParser(Parser):
    """Runs a generator that reads a source: an attempt to read on with each piece of text."""

    def __init__(self) -> None:
        self._source = Source()
        self._steps: Shown | None = None

    @abstractmethod
    def shown(self) -> Shown:
        """Read the whole reply: yields what may be shown, None where more text is needed."""

    def push(self, text: str) -> list[Delta]:
        self._source.feed(text)
        return self._run() if text else []

    def finish(self) -> list[Delta]:
        self._source.end()
        return self._run()

    def _run(self) -> list[Delta]:
        if self._steps is None:
            self._steps = self.shown()
        found: list[Delta] = []
        while (delta := next(self._steps, None)) is not None:
            found.append(delta)
        return _merged(found)


@dataclass(slots=True)
class Spaced:
    """Text without the white space at its ends, though it arrives in pieces."""

    lead: bool = True
    """Nothing was shown yet: white space that comes now is at the beginning."""
    first: bool = True
    """For the caller: whether this is the first that it shows."""
    _held: list[str] = field(default_factory=list)

    def add(self, text: str) -> str:
        """Returns what can be shown now."""
        if self.lead:
            text = text.lstrip()
        body = text.rstrip()
        if not body:
            self._held.append(text)
            return ""
        shown = "".join([*self._held, body])
        self._held = [text[len(body) :]]
        self.lead = False
        return shown

    def rest(self) -> str:
        """The white space at the end."""
        held, self._held = "".join(self._held), []
        return held

    def restart(self) -> None:
        self._held, self.lead = [], True


class Reader(StepParser):
    """One reply in a dialect."""

    def __init__(self, dialect: Dialect, tools: tuple[JSONObject, ...], *, reasons: bool) -> None:
        """`reasons`: the prompt has opened the reasoning."""
        super().__init__()
        self._dialect = dialect
        self._tools = functions(tools)
        self._reasons = reasons
        self._openings = Markers(*dialect.openings)
        self._count = 0
        self._text = Spaced()

    def shown(self) -> Shown:
        source, dialect = self._source, self._dialect
        openings = {**dialect.openings, **dialect.starts} if self._tools else {}
        ends = dict((dialect.reasoning, THINK))
        markers = Markers(*ends, *dialect.dropped, *openings)
        if self._reasons:
            yield from source.space()
            yield from source.maybe(dialect.reasoning[0])  # some models open again what the prompt has opened
            yield from self._reasoning(dialect.reasoning[1])
        else:
            self._text.lead = False  # a reply without reasoning keeps the white space that it begins with
        untouched = not self._reasons
        while not source.exhausted:
            text, marker = source.scan(markers)
            untouched = untouched and not text.strip()
            if text:
                yield Delta(text=self._text.add(text))
            first = untouched or self._text.lead
            if marker:
                untouched = untouched and marker in dialect.dropped
            if marker in ends and first:
                yield from self._reasoning(ends[marker])
            elif marker in openings and (first or marker not in dialect.starts):
                source.mark(marker)
                yield from self._calls(openings[marker], marker)
            elif marker and marker not in dialect.dropped:
                yield Delta(text=self._text.add(marker))
            elif not marker and not source.ended:
                yield None
            source.mark()
        if not self._text.lead:
            yield Delta(text=self._text.rest())

    def _reasoning(self, end: str) -> Shown:
        """Up to the closing marker, or the reply's end, or a call that ends reasoning."""
        source, inside, dialect = self._source, Spaced(), self._dialect
        openings = dialect.openings if self._tools else {}
        markers = Markers(end, *openings)
        while not source.exhausted:
            text, marker = source.scan(markers)
            yield Delta(reasoning=inside.add(text))
            if marker in openings and marker not in dialect.interrupts:
                source.mark(marker)
                source.stop_before(end)  # a call that is only thought of may be unfinished, and must not take in what follows
                calls = yield from self._calls_at_the_end(marker)
                source.go_on()
                if not calls:
                    yield Delta(reasoning=inside.add(self._not_a_call()))
                for call in calls:
                    yield from call.deltas(self._count)
                    self._count += 1
                    self.note = self.note or source.remark
            elif marker:
                if marker != end:
                    source.unread(marker)
                break
            elif not source.ended:
                yield None
        source.mark()
        self._text.restart()

    def _calls(self, read: ReadCalls, marker: str) -> Shown:
        """Calls from after `marker` on; what is none becomes text."""
        source = self._source
        try:
            for calls in read(Scope(source, self._tools, marker)):
                if calls is None:
                    yield None
                    continue
                self._check(calls)
                for call in calls:
                    yield from call.deltas(self._count)
                    self._count += 1
                self.note = self.note or source.remark
                source.mark()
                self._text.restart()
        except Malformed as reason:
            if str(reason):
                self.note = self.note or f"A tool call is given as text: it {reason}."
            yield Delta(text=self._text.add(self._not_a_call()))

    def _calls_at_the_end(self, marker: str) -> Generator[None, None, list[Call]]:
        """Calls from after `marker` on, if the reply ends with them: its reasoning was not closed. None for what is only thought of."""
        source, openings = self._source, self._dialect.openings
        found: list[Call] = []
        try:
            while marker:
                for calls in openings[marker](Scope(source, self._tools, marker)):
                    if calls is None:
                        yield
                    else:
                        self._check(calls)
                        found += calls
                yield from source.space()
                marker = yield from source.maybe(*openings)
        except Malformed:
            return []
        return found if source.exhausted else []

    def _not_a_call(self) -> str:
        """What was read since the mark, but for its end, if a marker may begin there: that is read again.

        Never the whole of it is: the next attempt must begin later than this one did.
        """
        text = self._source.since_mark()
        again = self._openings.overlap(text, 1)
        self._source.unread(text[len(text) - again :])
        return text[: len(text) - again]

    def _check(self, calls: tuple[Call, ...]) -> None:
        for call in calls:
            if call.name not in self._tools:
                raise Malformed(f"names {call.name[:64]!r}, which is no tool of this request")


def _merged(deltas: list[Delta]) -> list[Delta]:
    """The same in fewer pieces: neighbours of a kind joined, empty ones left out."""
    merged: list[Delta] = []
    kept = (delta for delta in deltas if delta.text or delta.reasoning or delta.tool_calls)
    for (is_text, is_reasoning), run in groupby(kept, key=lambda delta: (bool(delta.text), bool(delta.reasoning))):
        if is_text:
            merged.append(Delta(text="".join(delta.text for delta in run)))
        elif is_reasoning:
            merged.append(Delta(reasoning="".join(delta.reasoning for delta in run)))
        else:
            merged.extend(run)
    return merged
