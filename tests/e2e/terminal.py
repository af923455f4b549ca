"""A real terminal: a tmux server of its own, with one pane in it, driven by keys."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

WAIT_S = 20.0


class Terminal:
    """Runs one command at a size; used as a context manager it leaves no server behind."""

    def __init__(
        self, folder: Path, command: Sequence[str], environment: Mapping[str, str], size: tuple[int, int] = (100, 30), name: str = "reef"
    ) -> None:
        """`folder` takes the server's socket: nothing of the user's own tmux is touched."""
        self._environment = {"TMUX_TMPDIR": str(folder), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self._name = name
        width, height = size
        variables = [word for key, value in environment.items() for word in ("-e", f"{key}={value}")]
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), *variables, *command)
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._tmux("kill-server", check=False)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: `Enter`, `Escape`, `Down`, `r`; a longer word is typed letter by letter."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def coloured_screen(self) -> str:
        """The screen with the sequences that colour it."""
        return self._tmux("capture-pane", "-p", "-e")

    def until(self, *texts: str, without: str = "", seconds: float = WAIT_S) -> str:
        """The screen once it holds all of `texts` and not `without`; fails with what it holds instead."""
        deadline = time.monotonic() + seconds
        while True:
            shown = self.screen
            if all(text in shown for text in texts) and not (without and without in shown):
                return shown
            if time.monotonic() > deadline:
                raise AssertionError(f"{texts} (without {without!r}) did not come within {seconds:.0f} s. The screen:\n{shown}")
            time.sleep(0.1)

    @property
    def ended(self) -> int | None:
        """The exit code of the command, once it has ended."""
        dead, _, code = self._tmux("display-message", "-p", "#{pane_dead} #{pane_dead_status}").strip().partition(" ")
        return int(code or 0) if dead == "1" else None

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(["tmux", "-L", self._name, *arguments], env=self._environment, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise RuntimeError(f"tmux {' '.join(arguments)}: {done.stderr}")
        return done.stdout
