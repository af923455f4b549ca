"""A family whose calls stand between markers in the text: what most formats have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from daemon.engine.llama.formats.base import Parser, ToolFormat
from daemon.engine.llama.formats.calls import Call
from daemon.engine.llama.formats.reader import Calls, Dialect, Reader, Scope
from daemon.engine.llama.formats.source import Steps
from daemon.records import JSONObject


class MarkedFormat(ToolFormat):
    """Says which markers open calls and how to read what follows them; the rest is `Reader`'s."""

    openings: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    """The same, for what means a call at the beginning of the text or after another call only."""
    interrupts: tuple[str, ...] = ()
    """Openings that end reasoning too: control tokens that no model muses about."""
    dropped: tuple[str, ...] = ()
    """Markers around plain text, which mean nothing to a client."""

    @abstractmethod
    def read_calls(self, scope: Scope) -> Calls:
        """Reads what follows one of `openings` or `starts`."""

    def parser(self, tools: tuple[JSONObject, ...], prompt_end: str) -> Parser:
        read = self.read_calls
        dialect = Dialect(
            dict.fromkeys(self.openings, read), dict.fromkeys(self.starts, read), self.reasoning, self.interrupts, self.dropped
        )
        return Reader(dialect, tools, reasons=self.opens_reasoning(prompt_end))


def in_section(scope: Scope, section: tuple[str, str], opening: str, read: Callable[[], Steps[Call]]) -> Calls:
    """Calls that each begin with `opening`, one behind the other, in a section between two markers; models leave those out at times."""
    source = scope.source
    if scope.marker == section[0]:
        yield from source.space()
        yield from source.literal(opening)
    while True:
        yield ((yield from read()),)
        yield from source.space()
        if not (yield from source.maybe(opening)):
            break
    yield from source.maybe(section[1])
