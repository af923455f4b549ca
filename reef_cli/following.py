"""Follows a run live: each event as a line that stays or a line that moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.errors import EngineError
from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.progress import ProgressLine, bar

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_RECONNECTS = 5


def follow(client: Client, scenario: str, run_id: str) -> JSONObject:
    """Show a run until it ends; the run as the daemon then describes it.

    Raises:
        EngineError: the daemon went away.
    """
    line, cursor = ProgressLine(), 0
    path = scenario_path(scenario, "runs", run_id)
    for attempt in range(_RECONNECTS):
        try:
            for event in client.events(f"{path}/events", cursor):
                cursor = _number(event.get("cursor"), cursor)
                tell(event, line)
            break
        except EngineError:
            if attempt == _RECONNECTS - 1:
                raise
    line.clear()
    answer = client.get(path)
    return output.part(answer, "run") or answer


def tell(event: JSONObject, line: ProgressLine) -> None:
    """One event of a run; kinds that a person need not see are left out."""
    kind = event.get("type")
    if kind == "phase":
        line.line(output.printable(f"{output.text(event.get('phase')):9} {output.text(event.get('detail'), '')}".rstrip()))
    elif kind == "note":
        line.line(f"          {output.printable(output.text(event.get('text')))}")
    elif kind == "step":
        done, total = _number(event.get("step")), _number(event.get("steps"))
        line.update(f"          {bar(done, total)} step {done}/{total} · loss {output.text(event.get('loss'))}", done >= total > 0)
    elif kind == "task":
        done, total = _number(event.get("done")), _number(event.get("total"))
        line.update(f"          {bar(done, total)} {output.text(event.get('split'))} task {done}/{total}", done >= total > 0)
    elif kind == "probe":
        rise = event.get("rise")
        shown = f"{rise:+.1%}" if isinstance(rise, float) else output.text(rise)
        line.line(f"          loss of general text {shown}")
    elif kind == "failed" and event.get("hint"):
        line.line(f"          {output.printable(output.text(event.get('hint')))}")
    elif kind == "answer":
        line.line(f"          {output.shorten(output.printable(output.text(event.get('prompt'))), 100)}")
        for side in ("before", "after"):
            line.line(f"            {side:6} {output.shorten(output.printable(output.text(event.get(side))), 100)}")


def verdict(run: JSONObject) -> str:
    """The end of a run in one line."""
    word = output.text(run.get("verdict") or run.get("status"))
    sentence = output.text(run.get("sentence") or run.get("error"), "")
    parts = [] if sentence == word else [sentence]
    if run.get("release_id"):
        parts.append(f"release {output.text(run.get('release_id'))}")
    return output.printable(f"{word}: {' · '.join(part for part in parts if part)}".rstrip(": "))


def _number(value: JSON, otherwise: int = 0) -> int:
    return value if isinstance(value, int) else otherwise
