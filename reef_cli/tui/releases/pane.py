"""The tab `Releases`."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.widgets import DataTable

from reef_cli import output
from reef_cli.client import scenario_path
from reef_cli.tui.pane import Pane


class ReleasesPane(Pane):
    title: ClassVar[str] = "Releases"
    kinds: ClassVar[frozenset[str]] = frozenset({"head", "runs"})

    def compose(self) -> ComposeResult:
        yield DataTable[str](cursor_type="row")

    async def refresh_from(self, changes: frozenset[str]) -> None:
        answer = await self.daemon.get(scenario_path(self.scenario, "releases"))
        table = self.query_one(DataTable)
        table.clear(columns=True)
        table.add_columns("releases")
        for row in output.rows(answer, "releases"):
            table.add_row(output.shorten(output.printable(output.text(row)), 200))
