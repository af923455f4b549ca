"""What the app's panes share: each shows one side of the daemon and is asked to look again when that side changed."""

from __future__ import annotations

from typing import ClassVar

from textual.containers import Vertical

from reef_cli.tui.daemon import Daemon


class Pane(Vertical):
    """One tab of the app. Made when it is first shown; `refresh_from` runs then, and after each change while it is shown."""

    title: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    """The kinds of change (`head`, `records`, `runs`, `engine`) that this pane shows."""

    def __init__(self, daemon: Daemon, scenario: str) -> None:
        super().__init__(id=self.title.lower())
        self.daemon = daemon
        self.scenario = scenario

    async def refresh_from(self, changes: frozenset[str]) -> None:
        """Ask the daemon again for what `changes` touches, and show it without moving what a person looks at.

        Raises:
            ReefError: the app shows it; a lost daemon as such, until it comes back.
        """
        raise NotImplementedError

    async def show_scenario(self, scenario: str) -> None:
        """Turn to another scenario."""
        self.scenario = scenario
        await self.refresh_from(self.kinds)
