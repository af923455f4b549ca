"""No tools and no reasoning: all is text."""

from __future__ import annotations

from daemon.engine.base import Delta
from daemon.engine.llama.formats.base import Parser


class PlainParser(Parser):
    def push(self, text: str) -> list[Delta]:
        return [Delta(text=text)] if text else []

    def finish(self) -> list[Delta]:
        return []
