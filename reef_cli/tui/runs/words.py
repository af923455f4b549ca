"""A run's numbers in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import judgement, output

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

SIGNS = {"promoted": "↑", "held": "○", "rejected": "×", "nothing": "·", "failed": "!", "cancelled": "−", "running": "●"}
ROLES = {"promoted": "good", "held": "warn", "rejected": "bad", "failed": "bad", "running": "accent"}


def word_of(run: JSONObject) -> str:
    """`promoted`, `held`, `rejected`, `nothing`, or its state while there is no decision."""
    return output.text(run.get("verdict") or run.get("status"), "")


def took(seconds: float) -> str:
    """A time for people: `0.4 s`, `12 s`, `2m 10s`, `1h 03m`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def percent(share: float) -> str:
    """`3 %`, `0.4 %`."""
    return f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"


def statistics(facts: JSONObject) -> list[str]:
    """Why a decision was what it was, in sentences; nothing for what its gate did not measure."""
    tally = output.part(facts, "held_out")
    wins, losses, ties = (_count(tally.get(name)) for name in ("wins", "losses", "ties"))
    found: list[str] = []
    if wins + losses:
        differently = f"{_of(wins + losses, 'task')} that came out differently {'was' if wins == 1 else 'were'} won"
        found = [f"{wins} of the {differently}, {losses} lost; {ties} came out the same."]
    elif ties:
        found = [f"All {_of(ties, 'task')} came out as before."]
    return found + judgement.statistics({**facts, "probe_rise": None}, is_played=wins + losses > 0)  # the probe is shown by itself


def probe(event: JSONObject, facts: JSONObject) -> str:
    """What became of the loss of general text."""
    before, after, rise = (_number(event.get(name)) for name in ("before", "after", "rise"))
    if before is None or after is None or rise is None:
        return "not measured"
    allowed = _number(facts.get("probe_max_rise"))
    change = f"+{percent(rise)}" if rise > 0 else f"−{percent(-rise)}"
    more = f" (+{percent(allowed)} is allowed)" if allowed is not None else ""
    return f"loss of general text {before:.3f} → {after:.3f}, {change}{more}"


def selected(event: JSONObject) -> list[str]:
    """How many exchanges a run took, and which it left out why."""
    if not event:
        return []
    turns, new, skipped = _count(event.get("turns")), _count(event.get("new")), event.get("skipped")
    found = [f"{_of(turns, 'exchange')}, {new} of them new"]
    if isinstance(skipped, dict) and skipped:
        found.append("left out: " + ", ".join(f"{_count(count)} {output.text(reason)}" for reason, count in skipped.items()))
    return found


def _of(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _number(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: JSON) -> int:
    return value if isinstance(value, int) else 0
