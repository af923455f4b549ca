"""Assembles the typer app; no logic. `reef` starts here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer

from reef_cli.error_handler import run
from reef_cli.quick_help import QuickCommand, QuickGroup
from reef_cli.verbs import VERBS

HELP = """Turn your local inference server into a learner.

Coding agents and editors talk to Reef as to any OpenAI endpoint. It records what happens, learns from it between
sessions, and publishes each improvement as a release that can be compared and taken back.

\b
Start:
  reef init          answer one question, then
  reef up            start the daemon, then
  reef status        see what serves and where to point your editor
"""


def build_app(verb_typed: str) -> typer.Typer:
    """The app with every verb listed; only the one that was typed is imported and can run."""
    # typer reads the values of its own completion options through pydantic, which takes longer than a whole command: a verb goes without.
    app = typer.Typer(
        cls=QuickGroup, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=not verb_typed or completing(), help=HELP
    )
    app.callback()(_options)
    for verb in VERBS:
        if verb.name == verb_typed:
            function = verb.load()
            app.command(verb.name, cls=QuickCommand, help=f"{verb.sentence}\n\n{_details(function)}", short_help=verb.sentence)(function)
        else:
            app.command(verb.name, short_help=verb.sentence)(_not_loaded)
    return app


def main() -> None:
    """Run the command line and exit: 0 done, 1 what the user can mend, 3 a bug, 130 Ctrl-C."""
    if completing():
        words = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
        build_app([*words.split(), "", ""][1])(prog_name="reef")
    sys.exit(run(build_app, sys.argv[1:] or [_verb_alone()]))


def _verb_alone() -> str:
    """What `reef` without a word does: the app in a terminal, the help anywhere else."""
    return "tui" if sys.stdin.isatty() and sys.stdout.isatty() else "--help"


def completing() -> bool:
    """Whether a shell asks what could be typed next."""
    return "_REEF_COMPLETE" in os.environ


def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", callback=lambda value: _version(value)),
) -> None:
    """Options before the verb."""


def _version(value: bool) -> None:
    if value:
        from daemon import __version__

        typer.echo(f"reef {__version__}")
        raise typer.Exit


def _not_loaded() -> None:
    """Stand in for a verb that was not typed; it is listed, and never runs."""


def _details(function: Callable[..., None]) -> str:
    import inspect

    return inspect.getdoc(function) or ""


if __name__ == "__main__":
    main()
