"""What a pane says where there is nothing to show yet: that, and what to do next."""

from __future__ import annotations

from textual.content import Content

from reef_cli.tui.widgets.steady import Steady


class Empty(Steady, can_focus=True):
    """A sentence in the middle of the free room, and below it what to type or press. It has the focus, so that those keys work."""

    DEFAULT_CSS = """
    Empty {
        width: 1fr;
        height: 1fr;
        content-align: center middle;
        text-align: center;
        padding: 0 4;
    }
    """

    def say(self, sentence: str, *next_steps: str) -> None:
        """`next_steps`: each on a line of its own, such as "Start one: press n"."""
        steps = "".join(f"\n{step}" for step in next_steps)
        self.show(Content.assemble((sentence, "bold"), ("\n" + steps if steps else "", "$text-muted")))
