"""The app's tabs. Each is imported when it is first shown."""

from __future__ import annotations

from dataclasses import dataclass

from reef_cli.tui.pane import Pane


@dataclass(frozen=True, slots=True)
class Tab:
    title: str
    about: str  # for the command palette

    @property
    def name(self) -> str:
        return self.title.lower()


TABS: tuple[Tab, ...] = (
    Tab("Releases", "What serves, what served, what is held; compare, roll back, promote"),
    Tab("Sessions", "What was asked and answered; say what was good"),
    Tab("Runs", "What is learned, and what was decided"),
    Tab("Engine", "How fast, for whom, in how much memory"),
)


def pane_of(name: str) -> type[Pane]:
    """The pane of the tab `name`."""
    if name == "releases":
        from reef_cli.tui.releases.pane import ReleasesPane

        return ReleasesPane
    if name == "sessions":
        from reef_cli.tui.sessions.pane import SessionsPane

        return SessionsPane
    if name == "runs":
        from reef_cli.tui.runs.pane import RunsPane

        return RunsPane
    from reef_cli.tui.engine.pane import EnginePane

    return EnginePane
