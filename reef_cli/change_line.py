"""The change line at any width: what matters least is left out first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import output

if TYPE_CHECKING:
    from daemon.records import JSONObject

_SEPARATOR = " · "


def line(item: JSONObject, width: int | None = None) -> str:
    """A release's change line on one line of a terminal, in at most `width` characters where one is given."""
    found = output.rows(item, "parts")
    parts = [(output.printable(output.text(part.get("text"), "")), _weight(part)) for part in found]
    if not parts:
        parts = [(output.printable(output.text(item.get("line") or item.get("change"), "")), 0)]
    return fit(parts, width)


def fit(parts: list[tuple[str, int]], width: int | None) -> str:
    """Texts with their weights as one line: while it is too long, the last of those with the lowest weight goes."""
    left = list(parts)
    while width is not None and len(left) > 1 and len(_joined(left)) > width:
        lowest = min(weight for _, weight in left)
        del left[max(number for number, (_, weight) in enumerate(left) if weight == lowest)]
    whole = _joined(left)
    return whole if width is None or len(whole) <= width else whole[: max(0, width - 1)] + "…"


def _joined(parts: list[tuple[str, int]]) -> str:
    whole = ""
    for text, _ in parts:
        whole += (" " if text.startswith("(") else _SEPARATOR if whole else "") + text
    return whole


def _weight(part: JSONObject) -> int:
    weight = part.get("weight")
    return weight if isinstance(weight, int) else 0
