"""One reply from bytes to what is shown: characters, stop strings, then reasoning and tool calls as the model's family writes them."""

from __future__ import annotations

from daemon.engine.base import Delta
from daemon.engine.llama.formats.base import Parser
from daemon.engine.llama.text import TextStream


class ReplyText:
    """See the module. After `finish`, or once `stopped`, nothing more comes.

    `called`: a tool was called.
    """

    def __init__(self, stops: tuple[str, ...], parser: Parser) -> None:
        self._text = TextStream(stops)
        self._parser = parser
        self.called = False

    @property
    def stopped(self) -> bool:
        """A stop string is complete; it and what follows is not shown."""
        return bool(self._text.stop)

    @property
    def stop(self) -> str:
        """The stop string that ended the reply; empty: none did."""
        return self._text.stop

    @property
    def note(self) -> str:
        return self._parser.note

    def push(self, piece: bytes) -> list[Delta]:
        """Add a token's bytes."""
        shown = self._parser.push(self._text.push(piece))
        return self._seen(shown + self._parser.finish() if self._text.stop else shown)

    def finish(self) -> list[Delta]:
        """The model ended its turn, or may not go on."""
        return self._seen(self._parser.push(self._text.finish()) + self._parser.finish())

    def _seen(self, shown: list[Delta]) -> list[Delta]:
        self.called = self.called or any(delta.tool_calls for delta in shown)
        return shown
