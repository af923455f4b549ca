"""What brook keeps of its conversations: `history/*.jsonl`, a message a line. `reef import brook` finds this by the adapter's package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from daemon.importing.conversation import ImportedSession
from daemon.importing.files import Skipped
from daemon.importing.transcript import TranscriptReader


class BrookReader(TranscriptReader):
    name, variable, usual, below = "brook", "BROOK_HOME", ".brook", "history"

    def read(self, path: Path, on_bytes: Callable[[int], None]) -> Iterator[tuple[str, ImportedSession] | Skipped]:
        yield from ()  # see adapters/pi/transcripts.py for a real one


READER = BrookReader()
