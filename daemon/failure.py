"""How a process of ours ends that cannot go on: two lines for what the user can mend, a log for a bug, and the exit code.

0 done · 1 what the user can mend · 3 a bug (a log is written, ready to paste) · 130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from daemon.paths import Home

OK, USER_ERROR, BUG, INTERRUPTED = 0, 1, 3, 130


def tell(message: str, hint: str) -> int:
    """For what the user can mend; the exit code."""
    print(f"Error: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    return USER_ERROR


def tell_bug(error: Exception, command: str, home: Home) -> int:
    """Write a log with versions and traceback beside the home's other logs, and say where it is; the exit code."""
    text = _bug_text(error, command)
    log = _write_bug_log(text, home)
    if log is None:
        print(text, file=sys.stderr)
        return BUG
    print(f"Error: this is a bug in Reef: {type(error).__name__}: {error}", file=sys.stderr)
    print(f"  The details are in {log}; please report it with that file.", file=sys.stderr)
    return BUG


def log_bug(error: Exception, command: str, home: Home) -> Path | None:
    """The log alone, for a process that goes on; None where no folder can be written."""
    return _write_bug_log(_bug_text(error, command), home)


def _bug_text(error: Exception, command: str) -> str:
    import platform
    import traceback

    from daemon import __version__

    return "\n".join(
        (
            f"reef {__version__} · Python {platform.python_version()} · {platform.platform()}",
            f"command: {command}",
            "",
            "".join(traceback.format_exception(error)),
        )
    )


def _write_bug_log(text: str, home: Home) -> Path | None:
    import tempfile
    import time

    name = f"reef-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    for folder in (home.log.parent, Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        except OSError:
            continue
        return folder / name
    return None


def reader_gone() -> int:
    """For `BrokenPipeError`, as by `reef logs | head`: nothing more is printed, at the interpreter's end either; the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK
