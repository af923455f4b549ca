"""The change line, as people read it."""

from __future__ import annotations

import pytest

from daemon.versions.manifest import EvaluationSummary, Manifest, Operation
from daemon.versions.words import line_of, p_words, parts_of
from tests.versions.parts import BASE


def manifest(change: str, summary: EvaluationSummary | None = None, verdict: str = "") -> Manifest:
    return Manifest(
        release_id="r14",
        scenario="default",
        parent_release_id="r13",
        operation=Operation.TRAINING,
        created_at=0.0,
        change=change,
        artifacts=(),
        base=BASE,
        evaluation=summary,
        verdict=verdict,
    )


def evaluated(before: float, after: float, tasks: int, **more: object) -> EvaluationSummary:
    return EvaluationSummary.model_validate({"held_out_before": before, "held_out_after": after, "tasks": tasks, **more})


LONG = evaluated(61 / 80, 68 / 80, 80, wins=9, losses=2, p=0.0327, probe_rise=0.012, details={"tokens_before": 1000, "tokens_after": 921})


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (manifest("+2 rules"), "+2 rules"),
        (
            manifest("+2 rules −1 skill", LONG),
            "+2 rules −1 skill · held-out 61→68 of 80 (+9 −2, p .03) · tokens −8 % · general text +1.2 %",
        ),
        (manifest("LoRA r8", evaluated(0.0, 0.65, 10, wins=7, losses=0, p=1 / 128)), "LoRA r8 · held-out 0→6.5 of 10 (+7 −0, p .008)"),
        (manifest("+1 rule", evaluated(0.5, 0.5, 2, wins=1, losses=1)), "+1 rule · held-out 1→1 of 2 (+1 −1)"),
        (
            manifest("+1 rule", None, "rejected: worse on the held-in tasks: 0 wins, 2 losses, 1 tie"),
            "+1 rule · worse on the held-in tasks: 0 wins, 2 losses, 1 tie",
        ),
        (
            manifest("LoRA r8", EvaluationSummary(probe_rise=0.4), "rejected: the loss of general text rose by 40.0%"),
            "LoRA r8 · the loss of general text rose by 40.0% · general text +40.0 %",
        ),
        (manifest("+1 rule", None, "promoted by owner; the gate had said: held: not enough"), "+1 rule"),
        (manifest("a\nb  c"), "a b c"),
        (manifest(""), ""),
    ],
)
def test_what_changed_and_what_it_was_worth(given: Manifest, line: str) -> None:
    assert line_of(parts_of(given)) == line


@pytest.mark.parametrize(
    ("p", "words"),
    [(1.0, "p 1"), (0.5, "p .5"), (0.254, "p .25"), (0.04, "p .04"), (0.0327, "p .03"), (0.00391, "p .004"), (1e-5, "p <.001")],
)
def test_chance_is_said_briefly(p: float, words: str) -> None:
    assert p_words(p) == words
