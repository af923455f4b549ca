"""The loss curve and small bars as inline SVG.

Colours stand in attributes, readable on light and dark, for readers that do not apply the page's style to pictures; where they do, it wins.
"""

from __future__ import annotations

from collections.abc import Sequence

_WIDTH, _HEIGHT = 640, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 28
_MOST_POINTS = 400
_LINE, _GRID, _TEXT = "#2f80d8", "#a9afb8", "#7d838c"
_FILLS = {"rail": "#c3c8cf", "before": "#7d838c", "after": "#2f80d8", "win": "#2e9e6b", "loss": "#d9534a", "tie": "#c3c8cf"}


def loss_curve(losses: Sequence[tuple[int, float]]) -> str:
    """Steps from left to right, the loss from the lowest to the highest; empty for fewer than two steps."""
    points = [(step, loss) for step, loss in losses if loss == loss and abs(loss) != float("inf")]
    points = points[:: max(1, len(points) // _MOST_POINTS)]
    if len(points) < 2:
        return ""
    first, last = points[0][0], points[-1][0]
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    span, rise = max(1, last - first), (high - low) or 1.0

    def x(step: float) -> float:
        return _LEFT + (step - first) / span * (_WIDTH - _LEFT - _RIGHT)

    def y(loss: float) -> float:
        return _TOP + (high - loss) / rise * (_HEIGHT - _TOP - _BOTTOM)

    levels = (low, (low + high) / 2, high)
    lines = [
        f'<line class="grid" stroke="{_GRID}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(at):.1f}" y2="{y(at):.1f}"/>' for at in levels
    ]
    labels = [_label(_LEFT - 6, y(at) + 4, "end", f"{at:.3g}") for at in levels]
    labels += [_label(x(first), _HEIGHT - 8, "start", f"step {first}"), _label(x(last), _HEIGHT - 8, "end", f"step {last}")]
    path = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in points)
    title = f"Training loss over {last - first + 1} steps, from {points[0][1]:.3g} to {points[-1][1]:.3g}"
    return (
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>'
        f'{"".join(lines)}{"".join(labels)}<polyline fill="none" stroke="{_LINE}" stroke-width="2" points="{path}"/></svg>'
    )


def _label(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text fill="{_TEXT}" font-size="12" font-family="sans-serif" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def bar(value: float, most: float, kind: str) -> str:
    """A bar of `value` out of `most`; `kind` is its class."""
    share = 100 * min(1.0, max(0.0, value / most)) if most > 0 else 0.0
    return _bar(_piece("rail", 0, 100) + _piece(kind, 0, share))


def outcome_bar(wins: int, losses: int, ties: int) -> str:
    """Wins, losses and ties in their shares."""
    whole = max(1, wins + losses + ties)
    found, place = "", 0.0
    for count, kind in ((wins, "win"), (losses, "loss"), (ties, "tie")):
        width = 100 * count / whole
        found += _piece(kind, place, width)
        place += width
    return _bar(found)


def _piece(kind: str, start: float, width: float) -> str:
    return f'<rect class="{kind}" fill="{_FILLS[kind]}" x="{start:.2f}" width="{width:.2f}" height="8"/>'


def _bar(content: str) -> str:
    return f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{content}</svg>'
