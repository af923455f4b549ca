"""Turns what a command raises into two lines and an exit code.

0 done · 1 what the user can mend · 3 a bug (a log is written, ready to paste) · 130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import typer
from typer.exceptions import TyperException

from daemon.errors import ReefError
from reef_cli.locations import home
from reef_cli.verbs import VERBS

OK, USER_ERROR, BUG, INTERRUPTED = 0, 1, 3, 130


def run(build: Callable[[str], typer.Typer], arguments: Sequence[str]) -> int:
    """Run the app that `build` makes for the verb typed; the process's exit code."""
    verb = next((argument for argument in arguments if not argument.startswith("-")), "")
    try:
        code = build(verb)(args=list(arguments), prog_name="reef", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except ReefError as error:
        return _tell(error.message, error.hint)
    except TyperException as error:
        known = any(verb == listed.name for listed in VERBS)
        hint = f"`reef {verb} --help` shows what it takes." if known else "`reef --help` lists the verbs."
        return _tell(error.format_message().replace("Value error, ", ""), hint)
    except (KeyboardInterrupt, typer.Abort):
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `reef logs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:  # noqa: BLE001 -- the top of the process: whatever is left is a bug of ours
        return _bug(error, arguments)


def _tell(message: str, hint: str) -> int:
    print(f"Error: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    return USER_ERROR


def _bug(error: Exception, arguments: Sequence[str]) -> int:
    import platform
    import tempfile
    import time
    import traceback
    from pathlib import Path

    from daemon import __version__

    text = "\n".join(
        (
            f"reef {__version__} · Python {platform.python_version()} · {platform.platform()}",
            f"command: reef {' '.join(arguments[:1])} … ({len(arguments)} arguments)",
            "",
            "".join(traceback.format_exception(error)),
        )
    )
    name = f"reef-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    for folder in (home().log.parent, Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        except OSError:
            continue
        print(f"Error: this is a bug in Reef: {type(error).__name__}: {error}", file=sys.stderr)
        print(f"  The details are in {folder / name}; please report it with that file.", file=sys.stderr)
        return BUG
    print(text, file=sys.stderr)
    return BUG
