"""Turns what a command raises into two lines and an exit code, as `daemon.failure` lists them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import typer
from typer.exceptions import TyperException

from daemon.errors import ReefError
from daemon.failure import INTERRUPTED, OK, reader_gone, tell, tell_bug
from reef_cli.locations import home
from reef_cli.output import printable_lines
from reef_cli.verbs import VERBS


def run(build: Callable[[str], typer.Typer], arguments: Sequence[str]) -> int:
    """Run the app that `build` makes for the verb typed; the process's exit code."""
    verb = next((argument for argument in arguments if not argument.startswith("-")), "")
    try:
        code = build(verb)(args=list(arguments), prog_name="reef", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except ReefError as error:
        return tell(printable_lines(error.message), printable_lines(error.hint))
    except TyperException as error:
        known = any(verb == listed.name for listed in VERBS)
        hint = f"`reef {verb} --help` shows what it takes." if known else "`reef --help` lists the verbs."
        return tell(printable_lines(error.format_message().replace("Value error, ", "")), hint)
    except (KeyboardInterrupt, typer.Abort):
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `reef logs | head`
        return reader_gone()
    except Exception as error:  # noqa: BLE001 -- the top of the process: whatever is left is a bug of ours
        return tell_bug(error, f"reef {' '.join(arguments[:1])} … ({len(arguments)} arguments)", home())
