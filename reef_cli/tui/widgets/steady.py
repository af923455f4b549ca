"""Text that is painted again only when it differs."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Steady(Static):
    """A `Static` for what is set many times a second: the same content again costs nothing."""

    def __init__(self, content: Content | str = "", *, id: str | None = None, classes: str | None = None) -> None:
        self._shown = _content(content)
        super().__init__(self._shown, id=id, classes=classes)

    def show(self, content: Content | str) -> None:
        """Recorded text is shown as it is: a `str` is never read as markup."""
        new = _content(content)
        if new.is_same(self._shown):
            return
        same_shape = new.plain.count("\n") == self._shown.plain.count("\n") and new.cell_length == self._shown.cell_length
        self._shown = new
        self.update(new, layout=not same_shape)

    @property
    def shown(self) -> Content:
        return self._shown


def _content(content: Content | str) -> Content:
    return Content(content) if isinstance(content, str) else content
