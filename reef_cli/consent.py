"""A person's yes to what the guard found: it is shown with the files around it, and asked for, or given beforehand by flags."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TextIO, TypeAlias

import typer

from daemon.errors import Conflict
from reef_cli import output

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_MOST_LINES = 200

YesToFindings: TypeAlias = Annotated[bool, typer.Option("--yes", help="Yes to what the guard finds, but for what would run.")]
AcceptExecutables: TypeAlias = Annotated[
    bool, typer.Option("--accept-executables", help="Yes to extensions, hooks, scripts and commands that would run.")
]


@dataclass(frozen=True, slots=True)
class Found:
    """One finding, cleaned of control characters."""

    id: str
    where: str  # path:line
    reason: str
    span: str
    executable: bool


@dataclass(frozen=True, slots=True)
class Consent:
    """What was said yes to before it was shown."""

    yes: bool = False
    """To all that is found, but for what would run."""
    executables: bool = False

    def covers(self, found: list[Found]) -> bool:
        return all(self.executables if one.executable else self.yes for one in found)


def findings(shown: JSONObject) -> list[Found]:
    return [
        Found(
            output.text(one.get("id"), ""),
            output.printable(f"{output.text(one.get('path'))}:{output.text(one.get('line'))}"),
            output.printable(output.text(one.get("reason"))),
            output.printable(output.text(one.get("span"), "")),
            one.get("executable") is True,
        )
        for one in output.rows(shown, "findings")
    ]


def left_out(shown: JSONObject) -> list[str]:
    """Files that are too long to be shown side by side."""
    return [
        output.printable(output.text(one.get("path")))
        for one in output.rows(shown, "files")
        if not output.rows(one, "hunks") and not output.text(one.get("unified"), "")
    ]


def confirmed(shown: JSONObject, what: str, look: str, again: str, consent: Consent, as_json: bool) -> list[JSON]:
    """The ids of all that was found, once a person has said yes to it.

    Args:
        shown: `findings` and `files`, as the daemon answered them.
        what: what would happen, as a question without its mark.
        look: the command that shows all of it.
        again: the command that was typed, for the hint with the flags that are missing.

    Raises:
        Conflict: nobody said yes; nothing has changed.
    """
    found = findings(shown)
    _show(shown, found, look, sys.stderr if as_json else sys.stdout)
    if not consent.covers(found) and not (not as_json and _asked(what, any(one.executable for one in found))):
        flags = [flag for flag, executable in (("--yes", False), ("--accept-executables", True)) if executable in _kinds(found)]
        if as_json:
            output.print_json(shown)
        count = f"{len(found)} thing{'' if len(found) == 1 else 's'}"
        raise Conflict(
            f"Nobody said yes to the {count} that the guard found; nothing has changed.", f"If it is meant: {again} {' '.join(flags)}"
        )
    return [one.id for one in found]


def _kinds(found: list[Found]) -> set[bool]:
    return {one.executable for one in found}


def _show(shown: JSONObject, found: list[Found], look: str, stream: TextIO) -> None:
    from reef_cli.comparison import files

    for line in files(shown):
        print(line, file=stream)
    for path in left_out(shown):
        print(f"  {path} is too long to be shown here: {look}", file=stream)
    print("\nThe guard found:", file=stream)
    for one in found[:_MOST_LINES]:
        sign = output.paint("runs", output.RED) if one.executable else "    "
        print(f"  {sign}  {one.where}  {one.reason}{f': {output.shorten(one.span, 100)}' if one.span else ''}", file=stream)
    if len(found) > _MOST_LINES:
        print(f"  and {len(found) - _MOST_LINES} more: {look}", file=stream)


def _asked(what: str, runs: bool) -> bool:
    if not sys.stdin.isatty():
        return False
    if runs:
        print("What is marked `runs` is a program: an agent would start it on this machine, with your rights.", file=sys.stderr)
    return typer.confirm(f"{what}?", default=False, err=True)
