"""Evaluation: what is better gets through, what is worse, ruined or planted does not, and nobody wins by an outage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from daemon.errors import ContextOverflow, EngineError
from daemon.evolution import probe
from daemon.evolution.checkers import judge
from daemon.evolution.evaluate import Evaluation, Evaluator, Sides, prompt_mark
from daemon.evolution.gate import Decision, Evidence, Gate, PairedGate, Verdict
from daemon.evolution.looks import Looks
from daemon.evolution.play import Player
from daemon.evolution.progress import Progress
from daemon.evolution.tasks import Task, TaskSet
from daemon.records import JSONObject
from tests.evolution.scripted import Answer, Scripted


def tasks(split: str, count: int) -> list[Task]:
    return [
        Task.model_validate(
            {"id": f"{split}-{number:02d}", "split": split, "prompt": f"{split} question {number}", "check": {"text": f"answer {number}"}}
        )
        for number in range(count)
    ]


TASKS = TaskSet.of([*tasks("held-in", 10), *tasks("held-out", 12), *tasks("sealed", 4)])


class Bench:
    """One evaluation of a scripted candidate."""

    def __init__(self, folder: Path, answer: Answer, losses: dict[str, float] | None = None) -> None:
        self.scripted = Scripted(answer, losses or {})
        self.events: list[JSONObject] = []
        self.looks = Looks(folder / "looks.jsonl")
        self.folder = folder

    def evaluate(
        self,
        *,
        weights: bool = False,
        examples: frozenset[str] = frozenset(),
        seed: int = 1,
        task_set: TaskSet = TASKS,
        gate: Gate | None = None,
    ) -> Evaluation:
        current = self.scripted.client("r1")
        progress = Progress(self.events.append)
        player = Player(current, current.at("candidate"), lambda task, reply: judge(task, reply, scratch=self.folder), progress, seed)
        evaluator = Evaluator(gate or PairedGate(0.1), task_set, self.looks, player, progress, "run1", 0.1)
        return evaluator.evaluate(Sides(current.at("base"), current, current.at("candidate"), False, weights, examples))

    def kinds(self, split: str) -> list[JSONObject]:
        return [event for event in self.events if event["type"] == "task" and event["split"] == split]


def right(text: str) -> str:
    return f"answer {text.rsplit(' ', 1)[-1]}"


def better(candidate: str, text: str) -> str:
    return right(text) if candidate == "candidate" else "I do not know"


def test_a_clear_improvement_is_promoted_and_only_then_the_sealed_tasks_are_scored(tmp_path: Path) -> None:
    bench = Bench(tmp_path, better)
    evaluation = bench.evaluate()
    assert evaluation.decision.verdict is Verdict.PROMOTED
    assert len(bench.kinds("held-out")) == 12
    assert len(bench.kinds("sealed")) == 4
    assert [event["type"] for event in bench.events][-1] == "decision"
    stored = evaluation.to_json()
    assert stored["splits"]["held-out"]["passed_after"] == 12  # type: ignore[index,call-overload]
    assert len(evaluation.answers) == 5
    assert all(before and after for _, before, after in evaluation.answers)


def test_a_worse_candidate_is_rejected_without_spending_a_look(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda candidate, text: "rubbish" if candidate == "candidate" else right(text))
    evaluation = bench.evaluate()
    assert evaluation.decision.verdict is Verdict.REJECTED
    assert bench.kinds("held-out") == []
    assert bench.looks.count(TASKS.held_out) == 0


def test_a_planted_edit_that_shines_where_it_could_look_is_rejected(tmp_path: Path) -> None:
    """It knows the held-in tasks by heart and spoils everything else."""

    def planted(candidate: str, text: str) -> str:
        if candidate == "candidate":
            return right(text) if text.startswith("held-in") else "BUY NOW"
        return right(text) if text.startswith("held-out") else "I do not know"

    bench = Bench(tmp_path, planted)
    evaluation = bench.evaluate()
    assert evaluation.decision.verdict is Verdict.REJECTED
    assert bench.kinds("sealed") == []


def test_weights_that_ruined_general_text_are_rejected(tmp_path: Path) -> None:
    bench = Bench(tmp_path, better, {"base": 3.0, "candidate": 3.2})
    evaluation = bench.evaluate(weights=True)
    assert evaluation.decision.verdict is Verdict.REJECTED
    assert "6.7%" in evaluation.decision.sentence
    assert bench.kinds("held-out") == []
    assert Bench(tmp_path, better, {"base": 3.0, "candidate": 3.1}).evaluate(weights=True).decision.verdict is Verdict.PROMOTED


class Willing(Gate):
    """What a recipe of somebody's might bring."""

    name = "willing"

    def objection(self, evidence: Evidence) -> Decision | None:
        return None

    def decide(self, evidence: Evidence) -> Decision:
        return Decision(Verdict.PROMOTED, "why not")


def test_no_gate_lets_ruined_weights_or_a_worse_candidate_through(tmp_path: Path) -> None:
    assert Bench(tmp_path, better).evaluate(gate=Willing()).decision.verdict is Verdict.PROMOTED
    ruined = Bench(tmp_path, better, {"base": 3.0, "candidate": 4.0}).evaluate(weights=True, gate=Willing())
    assert ruined.decision.verdict is Verdict.REJECTED
    worse = Bench(tmp_path, lambda candidate, text: "rubbish" if candidate == "candidate" else right(text)).evaluate(gate=Willing())
    assert worse.decision.verdict is Verdict.REJECTED


def test_both_sides_play_the_same_tasks_with_the_same_seeds_interleaved(tmp_path: Path) -> None:
    bench = Bench(tmp_path, better)
    bench.evaluate()
    chats = [
        (candidate, body["seed"], str(body["messages"]))
        for (candidate, route), body in zip(bench.scripted.asked, bench.scripted.bodies, strict=True)
        if route == "chat/completions" and "seed" in body
    ]
    first, second = chats[0::2], chats[1::2]
    assert [(seed, text) for _, seed, text in first] == [(seed, text) for _, seed, text in second]
    assert [candidate for candidate, _, _ in first[:4]] == ["r1", "candidate", "r1", "candidate"]
    assert all(one[0] != two[0] for one, two in zip(first, second, strict=True))


def test_what_the_candidate_contains_is_left_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, better)
    evaluation = bench.evaluate(examples=frozenset({prompt_mark("Held-In  question 3"), prompt_mark("held-in question 4")}))
    assert evaluation.left_out == 2
    assert len(bench.kinds("held-in")) == 8


def test_a_candidate_that_only_repeats_what_it_was_shown_wins_nothing(tmp_path: Path) -> None:
    """A person asked five held-out questions, by chance or not, and corrected the replies: they stand in the candidate word for word."""
    shown = frozenset(prompt_mark(f"held-out question {number}") for number in range(5))
    bench = Bench(tmp_path, lambda candidate, text: right(text) if candidate == "candidate" and prompt_mark(text) in shown else "no")
    evaluation = bench.evaluate(examples=shown | {prompt_mark("sealed question 1")})
    assert evaluation.decision.verdict is Verdict.HELD
    assert len(bench.kinds("held-out")) == 7
    assert evaluation.left_out == 6


def test_a_side_that_cannot_answer_scores_below_a_wrong_answer(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda candidate, text: "OVERFLOW" if candidate == "candidate" else "wrong")
    evaluation = bench.evaluate()
    assert evaluation.decision.verdict is Verdict.REJECTED
    assert evaluation.held_in[0].after.score == -1


def test_an_outage_is_nobodys_loss(tmp_path: Path) -> None:
    bench = Bench(tmp_path, better)
    bench.scripted.down = True
    with pytest.raises(EngineError):
        bench.evaluate()


def test_live_requests_going_first_delays_but_does_not_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.evolution.model_client.time.sleep", lambda seconds: None)
    bench = Bench(tmp_path, better)
    bench.scripted.busy = 3
    assert bench.evaluate().decision.verdict is Verdict.PROMOTED


def test_the_same_candidate_again_and_again_meets_a_stricter_level(tmp_path: Path) -> None:
    """Five wins of twelve pass at the first look (p .03 against .061) and not at the second (.015)."""

    def five_wins(candidate: str, text: str) -> str:
        solved = candidate == "candidate" and text[-1] in "01234" and text[-2] == " "
        return right(text) if solved else "I do not know"

    assert Bench(tmp_path, five_wins).evaluate().decision.verdict is Verdict.PROMOTED
    second = Bench(tmp_path, five_wins).evaluate()
    assert second.decision.verdict is Verdict.HELD
    assert "more tasks would decide" in second.decision.sentence


def test_the_same_against_itself_with_noisy_replies_stays_below_alpha(tmp_path: Path) -> None:
    """A/A through the whole evaluation: 40 fresh sets, each asked four times; at most a tenth ever promotes."""
    random_ = random.Random(11)
    promoted = 0
    for number in range(40):
        folder = tmp_path / str(number)
        folder.mkdir()
        noisy: Answer = lambda candidate, text: right(text) if random_.random() < 0.5 else "no"  # noqa: E731
        small = TaskSet.of(tasks("held-out", 12))
        verdicts = [Bench(folder, noisy).evaluate(task_set=small, seed=night).decision.verdict for night in range(4)]
        promoted += Verdict.PROMOTED in verdicts
    assert promoted <= 4


def test_no_tasks_means_held(tmp_path: Path) -> None:
    evaluation = Bench(tmp_path, better).evaluate(task_set=TaskSet())
    assert evaluation.decision.verdict is Verdict.HELD
    assert evaluation.decision.sentence == "not enough evidence: there are no held-out tasks"


def test_the_probe_ships_with_text_and_five_prompts() -> None:
    texts = probe.probe_texts()
    assert len(texts) == 9
    assert 9_000 < sum(len(text) for text in texts.values()) < 14_000
    assert len(probe.unrelated_prompts()) == 5
    assert probe.mean_loss(Scripted(better, {"r1": 2.5}).client()) == pytest.approx(2.5)


def test_errors_keep_their_meaning() -> None:
    with pytest.raises(ContextOverflow):
        Scripted(lambda candidate, text: "OVERFLOW").client().chat([{"role": "user", "content": "x"}])
