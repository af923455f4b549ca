"""A model comes from a hub, with a bar."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from daemon.paths import Home
from reef_cli.locations import shown
from reef_cli.output import size
from reef_cli.progress import ProgressLine, bar


def download(name: str, home: Home) -> Path:
    """Fetch `owner/repo/file.gguf` into the home's models, or go on with it. Its file.

    Raises:
        ReefError: see `daemon.model_pull.pull`.
    """
    from daemon.model_pull import pull, split_name

    name = name.removeprefix("hf:")
    split_name(name)  # a name that means nothing is refused before anything is announced
    print(f"Downloading {name} into {shown(home.models)}; it goes on where it stopped if you run this again.", file=sys.stderr)
    line, rate = ProgressLine(), _Rate()

    def tell(done: int, total: int) -> None:
        line.update(f"  {bar(done, total)} {size(done)} of {size(total) if total else '?'}{rate.text(done, total)}", done >= total > 0)

    try:
        return pull(name, home, tell)
    finally:
        line.clear()


class _Rate:
    """How quick a download is, and how long it will take at that."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._from: int | None = None

    def text(self, done: int, total: int) -> str:
        if self._from is None:
            self._from = done  # what an earlier download has left does not count
        passed, came = time.monotonic() - self._began, done - self._from
        if passed < 1 or came <= 0:
            return ""
        left = f", {(total - done) * passed / came:.0f} s left" if total > done else ""
        return f" at {size(came / passed)}/s{left}"
