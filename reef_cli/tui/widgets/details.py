"""Facts beside a list: label and value, in sections, scrollable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content

from reef_cli.tui.widgets.steady import Steady


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (empty: none), facts below each other, and free text after them."""

    title: str = ""
    facts: Sequence[tuple[str, Content | str]] = ()
    text: Content | str = ""


class Details(VerticalScroll, can_focus=True):
    """Shows sections; keeps the place that a person has scrolled to while their content changes."""

    DEFAULT_CSS = """
    Details {
        padding: 0 1;
        scrollbar-size-vertical: 1;
    }
    """

    def compose(self) -> ComposeResult:
        yield Steady()

    def show(self, sections: Sequence[Section]) -> None:
        self.query_one(Steady).show(laid_out(sections))

    @property
    def shown(self) -> str:
        return self.query_one(Steady).shown.plain


def laid_out(sections: Sequence[Section]) -> Content:
    """Sections as one text: values in one column, wrapped by whoever shows it."""
    blocks = []
    for section in sections:
        width = max((len(label) for label, _ in section.facts), default=0) + 2
        lines = [Content.styled(section.title, "bold $text-primary")] if section.title else []
        lines += [Content.assemble((label.ljust(width), "$text-muted"), value) for label, value in section.facts]
        if section.text:
            lines.append(Content(section.text) if isinstance(section.text, str) else section.text)
        blocks.append(Content("\n").join(lines))
    return Content("\n\n").join(blocks)
