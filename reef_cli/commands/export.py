"""`reef export`: sessions for other programs."""

from __future__ import annotations

import re
import sys
import time
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.errors import BadRequest
from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.exporting import cut_short, summary_of, to_file
from reef_cli.options import Scenario
from reef_cli.progress import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.records import JSONObject

_AGE = re.compile(r"(\d+)([hdw])")
_SECONDS = {"h": 3600, "d": 86400, "w": 604800}


class Form(StrEnum):
    OPENAI = "openai"
    SHAREGPT = "sharegpt"
    KTO = "kto"
    DPO = "dpo"
    ATIF = "atif"
    RECORDS = "records"


def export(
    form: Annotated[Form, typer.Option("--format", "-f", help="How the lines are written.")] = Form.OPENAI,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Instead of standard output; complete or not there.")
    ] = None,
    session: Annotated[str, typer.Option("--session", metavar="ID", help="Only this one.")] = "",
    since: Annotated[str, typer.Option("--since", metavar="WHEN", help="Only sessions with a turn since 12h, 7d, 4w or 2026-05-31.")] = "",
    good_only: Annotated[bool, typer.Option("--good-only", help="Only replies that were scored good or corrected.")] = False,
    scenario: Scenario = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON; needs --out.")] = False,
) -> None:
    """openai: fine-tuning lines; of a good reply only that reply has weight. sharegpt: with tools as LLaMA-Factory reads them.
    kto and dpo: as TRL reads them, from scores and corrections. atif: Harbor's trajectories, version 1.7. records: for `reef
    import`. Secrets are taken out once more on the way.

    \b
    Examples:
      reef export --format openai --good-only -o good.jsonl
      reef export --format dpo -s pi --since 7d | head
    """
    if as_json and out is None:
        raise BadRequest("The lines themselves are JSON.", "Write them to a file: reef export --json --out FILE")
    query: dict[str, str | int | None] = {"format": form.value, "session": session, "since": _when(since), "summary": "true"}
    if good_only:
        query["good_only"] = "true"
    lines = Client().lines(scenario_path(scenario, "export"), query)
    summary = _to_stdout(lines) if out is None else _to_file(lines, out)
    if as_json:
        output.print_json({"file": str(out), **summary})
        return
    left_out = summary.get("left_out")
    print(f"{_count(summary.get('lines'), 'line')} of {_count(summary.get('sessions'), 'session')}.", file=sys.stderr)
    for reason, count in left_out.items() if isinstance(left_out, dict) else ():
        print(f"  left out: {count}: {output.printable(reason)}", file=sys.stderr)


def _to_stdout(lines: Iterator[bytes]) -> JSONObject:
    for line in lines:
        if (summary := summary_of(line)) is not None:
            return summary
        sys.stdout.buffer.write(line)
    raise cut_short()


def _to_file(lines: Iterator[bytes], out: Path) -> JSONObject:
    progress, told = ProgressLine(), time.monotonic()

    def tell(written: int) -> None:
        nonlocal told
        if time.monotonic() - told > 1:
            told = time.monotonic()
            progress.update(f"  {output.size(written)} written")

    try:
        return to_file(lines, out, tell)
    finally:
        progress.clear()


def _when(since: str) -> str:
    """Seconds since the epoch. Raises `BadRequest`."""
    if not since:
        return ""
    if match := _AGE.fullmatch(since):
        return f"{max(0.0, time.time() - int(match[1]) * _SECONDS[match[2]]):.3f}"
    try:
        return f"{max(0.0, datetime.fromisoformat(since).timestamp()):.3f}"
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"{since!r} is no time.", "Write 12h, 7d, 4w, or a date such as 2026-05-31.", param="--since") from error


def _count(number: object, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
