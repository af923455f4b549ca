"""What the app costs to open and to scroll, for `benchmarks/releases.py`, on a home whose daemon runs.

    REEF_HOME=… .venv/bin/python -m benchmarks.app [--rounds 9]

Opening is timed in a terminal of its own (a pty), in turn with an empty Textual app, from the start of the process until its first text is
painted. Scrolling is measured within the app: how long the event loop computes at a stretch, in processor time of its thread, so that
what else runs on the machine does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

ROWS, COLUMNS = 40, 120
_WAIT_S = 60.0
_PAGES = 60
EMPTY = """
from textual.app import App
from textual.widgets import Static

class Empty(App):
    def compose(self):
        yield Static("painted")

Empty().run()
"""
_REEF = (sys.executable, "-P", "-m", "reef_cli.main")
_EMPTY = (sys.executable, "-P", "-c", EMPTY)


@dataclass(frozen=True, slots=True)
class Opening:
    """Seconds from the start of the process, medians."""

    empty_s: float
    first_paint_s: float  # the frame of the app
    filled_s: float  # the newest release is in sight

    @property
    def ratio(self) -> float:
        return self.first_paint_s / self.empty_s


@dataclass(frozen=True, slots=True)
class Scrolling:
    """Milliseconds, over pages of one list."""

    rows: int
    page_ms: float  # from the key until all is painted, median of the wall clock
    longest_ms: float  # the longest that the loop computed without looking at the keys
    longest_of: str  # what it computed


def opening(environment: Mapping[str, str], head: str, rounds: int = 9) -> Opening:
    """Both apps in turn; the first round warms up.

    Args:
        environment: with the home, whose daemon runs.
        head: the release that serves, such as `r1001`.
    """
    empty, painted, filled = list[float](), list[float](), list[float]()
    for turn in range(rounds + 1):
        (bare,) = _until_painted(_EMPTY, environment, ["painted"])
        first, full = _until_painted(_REEF, environment, ["Releases", head])
        if turn:
            empty.append(bare)
            painted.append(first)
            filled.append(full)
    return Opening(statistics.median(empty), statistics.median(painted), statistics.median(filled))


def scrolling(environment: Mapping[str, str], tab: str) -> Scrolling:
    """A process of its own pages down the list of `tab` (`releases`, `sessions`). Raises CalledProcessError."""
    command = [sys.executable, "-m", "benchmarks.app", "--scroll", tab]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    return Scrolling(**json.loads(done.stdout))


def _until_painted(command: tuple[str, ...], environment: Mapping[str, str], texts: list[str]) -> list[float]:
    """Seconds until each of `texts` has come. Raises TimeoutError."""
    began = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], command, {**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"})
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        said, found = b"", list[float]()
        while len(found) < len(texts):
            if not select.select([terminal], [], [], _WAIT_S)[0]:
                raise TimeoutError(f"{texts[len(found)]!r} was not painted within {_WAIT_S:.0f} s")
            said += os.read(terminal, 1 << 16)
            while len(found) < len(texts) and texts[len(found)].encode() in said:
                found.append(time.perf_counter() - began)
        return found
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


async def _scroll(tab: str) -> Scrolling:
    from reef_cli.tui.app import ReefApp
    from reef_cli.tui.themes import DARK

    app = ReefApp(theme=DARK, first=tab)
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        await asyncio.sleep(1.5)  # the feed has said hello, the first page is there
        await pilot.pause()
        longest = _Longest()
        taken = []
        for _ in range(_PAGES):
            began = time.perf_counter()
            await pilot.press("pagedown")
            taken.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)
        longest.stop()
        focused = app.screen.focused
        rows = focused.virtual_size.height if focused is not None else 0
    return Scrolling(rows, 1000 * statistics.median(taken), 1000 * longest.seconds, longest.what)


class _Longest:
    """Times every callback of the event loop, in processor time of this thread."""

    def __init__(self) -> None:
        self.seconds, self.what = 0.0, ""
        self._run = asyncio.Handle._run
        run, me = self._run, self

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            if (passed := time.thread_time() - began) > me.seconds:
                me.seconds, me.what = passed, repr(handle)[:200]

        asyncio.Handle._run = timed  # type: ignore[method-assign]

    def stop(self) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scroll", help="measure within this process, and print JSON")
    options = parser.parse_args()
    if options.scroll:
        print(json.dumps(asdict(asyncio.run(_scroll(options.scroll)))))
        return 0
    from reef_cli.client import Client

    head = str(Client().get("/reef/scenarios/default/releases/head")["release_id"])
    opened = opening(dict(os.environ), head, options.rounds)
    print(f"an empty Textual app {1000 * opened.empty_s:6.0f} ms")
    print(f"the app, first paint {1000 * opened.first_paint_s:6.0f} ms   {opened.ratio:.2f} times, limit 2")
    print(f"the app, list filled {1000 * opened.filled_s:6.0f} ms")
    held = opened.ratio <= 2
    for tab in ("releases", "sessions"):
        scrolled = scrolling(dict(os.environ), tab)
        held = held and scrolled.longest_ms <= 50
        print(f"{tab}: a page in {scrolled.page_ms:.1f} ms; longest stretch {scrolled.longest_ms:.1f} ms, limit 50 ({scrolled.rows} rows)")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
