"""The tab `Sessions`."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.widgets import DataTable

from reef_cli import output
from reef_cli.client import scenario_path
from reef_cli.tui.pane import Pane


class SessionsPane(Pane):
    title: ClassVar[str] = "Sessions"
    kinds: ClassVar[frozenset[str]] = frozenset({"records"})

    def compose(self) -> ComposeResult:
        yield DataTable[str](cursor_type="row")

    async def refresh_from(self, changes: frozenset[str]) -> None:
        answer = await self.daemon.get(scenario_path(self.scenario, "sessions"))
        table = self.query_one(DataTable)
        table.clear(columns=True)
        table.add_columns("sessions")
        for row in output.rows(answer, "sessions"):
            table.add_row(output.shorten(output.printable(output.text(row)), 200))
