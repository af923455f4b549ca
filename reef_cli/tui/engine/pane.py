"""The tab `Engine`."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.widgets import DataTable

from reef_cli import output
from reef_cli.tui.pane import Pane


class EnginePane(Pane):
    title: ClassVar[str] = "Engine"
    kinds: ClassVar[frozenset[str]] = frozenset({"engine"})

    def compose(self) -> ComposeResult:
        yield DataTable[str](cursor_type="row")

    async def refresh_from(self, changes: frozenset[str]) -> None:
        answer = await self.daemon.get("/reef/status")
        table = self.query_one(DataTable)
        table.clear(columns=True)
        table.add_columns("engine")
        for row in output.rows(answer, "scenarios"):
            table.add_row(output.shorten(output.printable(output.text(row)), 200))
