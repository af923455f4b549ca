"""A family whose calls stand between markers in the text: what most formats have in common."""

from __future__ import annotations

from abc import abstractmethod

from daemon.engine.llama.formats.base import Parser, ToolFormat
from daemon.engine.llama.formats.reader import Calls, Dialect, Reader, Scope
from daemon.records import JSONObject


class MarkedFormat(ToolFormat):
    """Says which markers open calls and how to read what follows them; the rest is `Reader`'s."""

    openings: tuple[str, ...]
    interrupts: tuple[str, ...] = ()
    """Openings that end reasoning too: control tokens that no model muses about."""
    dropped: tuple[str, ...] = ()
    """Markers around plain text, which mean nothing to a client."""

    @abstractmethod
    def read_calls(self, scope: Scope) -> Calls:
        """Reads what follows one of `openings`."""

    def parser(self, tools: tuple[JSONObject, ...], prompt_end: str) -> Parser:
        dialect = Dialect(dict.fromkeys(self.openings, self.read_calls), self.reasoning, self.interrupts, self.dropped)
        return Reader(dialect, tools, reasons=self.opens_reasoning(prompt_end))
