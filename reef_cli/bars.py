"""Small bars of blocks, an eighth of a column fine."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(value: float, most: float, width: int) -> str:
    """`value` of `most` as a bar of at most `width` columns; what is more than nothing shows as something."""
    share = min(1.0, max(0.0, value / most)) if most > 0 else 0.0
    eighths = round(share * width * 8) or (1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def outcomes(wins: int, losses: int, ties: int, width: int) -> str:
    """Wins, losses and ties as one bar of `+`, `−` and `·`, each in its share; what is there at all has a place."""
    counts = (wins, losses, ties)
    whole = sum(counts)
    if not whole:
        return ""
    width = min(width, whole)
    places = [max(1, width * count // whole) if count else 0 for count in counts]
    while sum(places) > width:
        places[places.index(max(places))] -= 1
    places[2 if ties else places.index(max(places))] += width - sum(places)
    return "+" * places[0] + "−" * places[1] + "·" * places[2]
