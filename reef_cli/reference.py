"""Writes `docs/cli.md` from the help texts: `python -m reef_cli.reference > docs/cli.md`. A test compares the two."""

from __future__ import annotations

import sys
from itertools import groupby

import typer
from typer.testing import CliRunner

from reef_cli.main import build_app
from reef_cli.verbs import VERBS

_INTRODUCTION = """\
# Command line

Made from the help texts by `python -m reef_cli.reference > docs/cli.md`.

`reef VERB --help` shows the same. Exit codes are the same everywhere: 0 done, 1 what you can mend (the error says what to type next),
3 a bug in Reef (a log is written, ready to paste, and its path printed), 130 Ctrl-C. `REEF_HOME` moves Reef's home from `~/.reef`.
`--json` prints what a program can read; colours are never the only sign, and `NO_COLOR` turns them off.
"""


def reference() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for panel, verbs in groupby(VERBS, key=lambda verb: verb.panel):
        parts.append(f"## {panel}\n")
        for verb in verbs:
            parts.append(f"### reef {verb.name}\n\n```\n{help_text(build_app(verb.name), verb.name)}\n```\n")
    return "\n".join(parts)


def help_text(app: typer.Typer, verb: str) -> str:
    """What `reef VERB --help` prints on a terminal of 100 columns."""
    result = CliRunner().invoke(app, [verb, "--help"], prog_name="reef", env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"})
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


if __name__ == "__main__":
    sys.stdout.write(reference())
