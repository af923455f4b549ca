"""The change line: what a release changed and what its evaluation showed, in one line that reads the same everywhere.

    +2 rules −1 skill · held-out 61→68 of 80 (+9 −2, p .03) · tokens −8 %

It is made of parts with weights, so that a narrow screen can leave out what matters least.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from daemon.versions.manifest import EvaluationSummary, Manifest

SEPARATOR: Final = " · "
_FIRST_CHANGE, _RESULT, _REASON, _OTHER_CHANGE, _CHANCE, _COST, _GENERAL = 9, 8, 7, 6, 5, 4, 3
_SMALLEST_P: Final = 0.001


@dataclass(frozen=True, slots=True)
class Part:
    """What stands between two dots; one that begins with a bracket belongs to the part before it. The lowest weight goes first."""

    text: str
    weight: int


def change_parts(change: str) -> tuple[Part, ...]:
    """What changed; the first thing that it names is the most important one."""
    texts = [text for text in " ".join(change.split()).split(SEPARATOR) if text]
    return tuple(Part(text, _OTHER_CHANGE if number else _FIRST_CHANGE) for number, text in enumerate(texts))


def parts_of(manifest: Manifest) -> tuple[Part, ...]:
    """The parts of a release's change line."""
    summary = manifest.evaluation
    shown = evaluation_parts(summary) if summary is not None else ()
    if summary is None or not summary.tasks:
        shown = (*_reason(manifest.verdict), *shown)
    return (*change_parts(manifest.change), *shown)


def line_of(parts: Iterable[Part]) -> str:
    """The whole line."""
    line = ""
    for part in parts:
        line += (" " if part.text.startswith("(") else SEPARATOR if line else "") + part.text
    return line


def evaluation_parts(summary: EvaluationSummary) -> tuple[Part, ...]:
    """`held-out 61→68 of 80`, `(+9 −2, p .03)`, `tokens −8 %`, `general text +1.2 %`."""
    parts: list[Part] = []
    before, after = summary.held_out_before, summary.held_out_after
    if before is not None and after is not None and summary.tasks:
        parts.append(Part(f"held-out {points(before, summary.tasks)}→{points(after, summary.tasks)} of {summary.tasks}", _RESULT))
        parts.append(Part(f"(+{summary.wins} −{summary.losses}{', ' + p_words(summary.p) if summary.p is not None else ''})", _CHANCE))
    cost = token_change(summary)
    if cost is not None and round(cost, 2):
        parts.append(Part(f"tokens {percent(cost, 0)}", _COST))
    if summary.probe_rise is not None and round(summary.probe_rise, 3):
        parts.append(Part(f"general text {percent(summary.probe_rise, 1)}", _GENERAL))
    return tuple(parts)


def token_change(summary: EvaluationSummary) -> float | None:
    """How much more of tokens the same held-out tasks took: −.08 is eight percent less. None: nothing was counted."""
    before, after = summary.details.get("tokens_before"), summary.details.get("tokens_after")
    if not isinstance(before, int | float) or not isinstance(after, int | float) or before <= 0:
        return None
    return after / before - 1


def points(mean: float, tasks: int) -> str:
    """A mean score as the sum of its tasks' scores: `61`, or `60.5` where some were solved in part."""
    return f"{mean * tasks:.1f}".removesuffix(".0")


def p_words(p: float) -> str:
    """`p .03`, `p <.001`, `p 1`."""
    if p < _SMALLEST_P:
        return "p <.001"
    digits = f"{p:.2f}" if p >= 0.1 else f"{p:.1g}"
    return "p " + (digits.rstrip("0").rstrip(".") or "0").removeprefix("0")


def percent(share: float, digits: int) -> str:
    """`+1.2 %`, `−8 %`."""
    return f"{'−' if share < 0 else '+'}{abs(share) * 100:.{digits}f} %"


def _reason(verdict: str) -> tuple[Part, ...]:
    """Why it was held or rejected, where no held-out task was played."""
    word, _, sentence = verdict.partition(": ")
    return (Part(sentence, _REASON),) if word in ("held", "rejected") and sentence else ()
