"""What the app's panes share: each shows one side of the daemon and is asked to look again when that side changed."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App
from textual.containers import Vertical
from textual.message import Message

from reef_cli.tui.daemon import Daemon


class Shell(App[None]):
    """What a pane may ask of the app around it."""

    def tell(self, error: BaseException) -> None:
        """Show what failed, and go on."""
        raise NotImplementedError


class Pane(Vertical):
    """One tab of the app. Made when it is first shown; `refresh_from` runs then, and after each change while it is shown.

    Its keys are its `BINDINGS` (and those of what it holds): the footer, the help screen and the command palette show those that
    have a description, with their tooltip as a sentence.
    """

    title: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    """The kinds of change (`head`, `records`, `runs`, `engine`) that this pane shows."""
    about: ClassVar[str] = ""
    """What it shows, for the help screen."""

    class Go(Message):
        """Turn to another tab, and there to `key` (a release, a session, a run), where one is given."""

        def __init__(self, title: str, key: str = "") -> None:
            super().__init__()
            self.title, self.key = title, key

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

    def offers(self, action: str) -> bool:
        """Whether a key fits what is selected, so that the last line names it. It works anyway, and says why it does nothing."""
        return True

    async def show_scenario(self, scenario: str) -> None:
        """Turn to another scenario."""
        self.scenario = scenario
        await self.refresh_from(self.kinds)

    async def _dispatch_message(self, message: Message) -> None:
        """What a handler of this pane raises is shown, and the pane goes on: Textual would end the app."""
        try:
            await super()._dispatch_message(message)
        except Exception as error:  # around one event of a screen that stays open for days
            if not isinstance(self.app, Shell):
                raise
            self.app.tell(error)

    async def open(self, key: str) -> None:
        """Show one thing: the release, session or run `key`. Runs after `refresh_from`."""
