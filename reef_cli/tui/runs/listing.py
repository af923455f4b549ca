"""The list of runs, newest first, in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from reef_cli import output
from reef_cli.client import scenario_path
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.runs import words
from reef_cli.tui.widgets.rows import Column, Row

if TYPE_CHECKING:
    from daemon.records import JSONObject

PAGE = 30
COLUMNS = (Column("recipe", 9), Column("started", 7, right=True), Column("decision"), Column("by", 9, from_width=70))
STYLES = {"good": "$text-success", "bad": "$text-error", "warn": "$text-warning", "accent": "$text-primary"}


class RunList:
    """The pages that were read."""

    def __init__(self, daemon: Daemon, scenario: str) -> None:
        self.runs: list[JSONObject] = []
        self.is_read = False
        self._daemon = daemon
        self._path = scenario_path(scenario, "runs")
        self._next: float | None = None

    async def refresh(self) -> None:
        """Read the newest page again; what was read below it stays."""
        page = await self._daemon.get(self._path, {"limit": PAGE})
        found, following = output.rows(page, "runs"), page.get("next")
        names = {_id(run) for run in found}
        if not self.is_read or not isinstance(following, float):
            self.runs, self._next = found, following if isinstance(following, float) else None
        else:
            self.runs = found + [run for run in self.runs if _id(run) not in names and _started(run) < following]
        self.is_read = True

    async def more(self) -> bool:
        """Read the next page. False: there is none."""
        if self._next is None:
            return False
        page = await self._daemon.get(self._path, {"limit": PAGE, "before": str(self._next)})
        following = page.get("next")
        self._next = following if isinstance(following, float) else None
        known = {_id(run) for run in self.runs}
        self.runs += [run for run in output.rows(page, "runs") if _id(run) not in known]
        return True

    def find(self, run_id: str) -> JSONObject | None:
        return next((run for run in self.runs if _id(run) == run_id), None)

    @property
    def running(self) -> JSONObject | None:
        return next((run for run in self.runs if run.get("status") == "running"), None)


def row_of(run: JSONObject) -> Row:
    """One line of the list."""
    word = words.word_of(run)
    release = output.text(run.get("release_id"), "")
    style = STYLES.get(words.ROLES.get(word, ""), "")
    if word == "running":
        told = output.text(run.get("phase"), "")
    else:
        told = output.text(run.get("sentence") or run.get("error"), "")
        told = "" if told == word else told
    decision = Content.assemble(
        (f"{words.SIGNS.get(word, '·')} {word}", style),
        f" {output.printable(release)}" if release else "",
        (f"  {output.shorten(output.printable(told), 200)}" if told else "", "$text-muted"),
    )
    dry = "dry run" if output.part(run, "config").get("dry_run") else ""
    cells = (
        Content(output.shorten(output.printable(output.text(run.get("recipe")).rpartition(":")[2]), 20)),
        Content.styled(output.age(run.get("started_at")).removesuffix(" ago"), "$text-muted"),
        decision,
        Content.styled(dry or output.shorten(output.printable(output.text(run.get("trigger"), "")), 20), "$text-muted"),
    )
    return Row(_id(run), cells)


def _id(run: JSONObject) -> str:
    return output.text(run.get("run_id"))


def _started(run: JSONObject) -> float:
    return output.to_seconds(run.get("started_at")) or 0.0
