"""`demos`: the right exchanges are shown, each once, within the budget, and the same choice gives the same prompt."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from daemon.engine.base import Capability, ModelInfo
from daemon.evolution.context import RunContext, TrainingLimits
from daemon.evolution.progress import Progress
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.experience.stream import ExperienceStream
from daemon.harness.hints import with_hints
from daemon.harness_tree import HarnessTree
from daemon.records import Inference, Message
from daemon.serving_hints import Demonstration, ServingHints
from daemon.versions.manifest import BaseModelFacts, Manifest, Operation
from daemon.versions.release import Release, ReleaseState
from recipes.demos import recipe as demos
from recipes.demos.recipe import DemosRecipe, DemosSettings, Exchange, choose
from tests.evolution.scripted import Scripted
from tests.experience.make import assistant, inference, report, system, user


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "experience.db")


def stream(store: Store) -> ExperienceStream:
    return ExperienceStream(Reader(store.path), "default")


def told(
    store: Store, prompt: str, reply: str = "said", *, score: float | None = None, correction: str = "", before: tuple[Message, ...] = ()
) -> Inference:
    """One exchange with its report."""
    item = inference([*before, user(prompt)], reply, session=f"s-{prompt}-{reply}")
    store.append(item).result()
    if score is not None or correction:
        store.append_report(report(item, score=score, feedback={"correction": correction} if correction else None)).result()
    return item


def context(
    tmp_path: Path, hints: ServingHints | None = None, *, capabilities: Capability = Capability.TOKEN_IDS, window: int = 8192
) -> RunContext:
    manifest = Manifest(
        release_id="r1",
        scenario="default",
        parent_release_id=None,
        operation=Operation.CREATION,
        created_at=0,
        change="",
        artifacts=(),
        base=BaseModelFacts(model="scripted"),
    )
    model = Scripted(lambda candidate, text: "x").client()
    return RunContext(
        scenario="default",
        release=Release(manifest, "c" * 40, ReleaseState.PUBLISHED, with_hints(HarnessTree(), hints or ServingHints()), None),
        lora_folder=None,
        model=model,
        model_info=ModelInfo("scripted", window),
        capabilities=capabilities,
        teacher=model,
        tasks=(),
        rng=random.Random(0),
        progress=Progress(lambda event: None),
        workdir=tmp_path,
        seed=0,
        limits=TrainingLimits(),
    )


def shown(store: Store, run_context: RunContext, **settings: object) -> list[Demonstration]:
    recipe = DemosRecipe(DemosSettings.model_validate({"batch_size": 1, **settings}))
    batch = recipe.select(stream(store))
    assert batch is not None
    candidate = recipe.propose(batch, run_context)
    if candidate is None:
        return []
    assert candidate.hints is not None
    assert candidate.examples == tuple(one.prompt for one in candidate.hints.demonstrations)
    return list(candidate.hints.demonstrations)


def test_accepted_and_corrected_exchanges_are_shown_and_nothing_else(store: Store, tmp_path: Path) -> None:
    told(store, "accepted", "fine", score=1)
    corrected = told(store, "corrected", "wrong", correction="right")
    told(store, "refused", "bad", score=0)
    told(store, "unspoken of")
    found = shown(store, context(tmp_path))
    assert [(one.prompt, one.reply) for one in found] == [("accepted", "fine"), ("corrected", "right")]
    assert found[1].source == corrected.id


def test_a_correction_that_held_a_secret_is_not_shown(store: Store, tmp_path: Path) -> None:
    told(store, "one", correction="use the key [redacted:aws]")
    told(store, "two", correction="use the key from the vault")
    assert [one.prompt for one in shown(store, context(tmp_path), batch_size=1)] == ["two"]


def test_the_best_of_several_answers_to_one_prompt_is_kept(store: Store, tmp_path: Path) -> None:
    told(store, "Same  prompt", "good", score=0.6)
    told(store, "same prompt", "better", score=0.9)
    told(store, "same prompt ", "worse", score=0.7)
    assert [one.reply for one in shown(store, context(tmp_path))] == ["better"]
    told(store, "SAME prompt", "x", correction="best")
    assert [one.reply for one in shown(store, context(tmp_path))] == ["best"]


def test_turns_in_the_middle_of_a_conversation_are_left_out(store: Store, tmp_path: Path) -> None:
    told(store, "alone", "fine", score=1, before=(system("You are brief."),))
    told(store, "later", "fine", score=1, before=(user("hello"), assistant("hi")))
    assert [one.prompt for one in shown(store, context(tmp_path))] == ["alone"]


def test_they_differ_and_fit_the_budget(store: Store, tmp_path: Path) -> None:
    for number in range(6):
        told(store, f"Write a commit message for a bug fix number {number}", score=1)
    told(store, "Translate the menu into Dutch", score=1)
    told(store, "Plan a picnic", score=1)
    few = shown(store, context(tmp_path), max_demonstrations=3)
    assert len(few) == 3
    assert {"Translate the menu into Dutch", "Plan a picnic"} <= {one.prompt for one in few}
    small = shown(store, context(tmp_path), budget_tokens=200)
    assert 1 <= len(small) < 3
    told(store, "word " * 2000, score=1)
    assert all(len(one.prompt) < 1000 for one in shown(store, context(tmp_path)))
    tiny_window = shown(store, context(tmp_path, window=400))
    assert len(tiny_window) <= 1


def test_without_a_tokeniser_length_is_guessed(store: Store, tmp_path: Path) -> None:
    for number in range(30):
        told(store, f"prompt {number} " + "text " * 40, score=1)
    found = shown(store, context(tmp_path, capabilities=Capability.NONE), max_demonstrations=64)
    assert 5 < len(found) < 20


def test_the_same_experience_gives_the_same_prompt_and_keeps_the_prefix(store: Store, tmp_path: Path) -> None:
    for number in range(5):
        told(store, f"prompt {number}", score=1)
    existing = ServingHints(system_prefix="Be brief.")
    recipe = DemosRecipe(DemosSettings(batch_size=1))
    batch = recipe.select(stream(store))
    assert batch is not None
    one, two = recipe.propose(batch, context(tmp_path, existing)), recipe.propose(batch, context(tmp_path, existing))
    assert one is not None
    assert one == two
    assert one.hints is not None
    assert one.hints.system_prefix == "Be brief."
    assert one.change == "+5 demonstrations"
    assert set(one.records) == set(batch.records)


def test_too_little_new_experience_is_no_batch(store: Store) -> None:
    recipe = DemosRecipe(DemosSettings(batch_size=3))
    told(store, "one", score=1)
    told(store, "two", score=1)
    told(store, "three", score=0)
    assert recipe.select(stream(store)) is None
    told(store, "four", score=1)
    batch = recipe.select(stream(store))
    assert batch is not None
    assert batch.new == 3


def test_many_exchanges_that_do_not_fit_are_not_compared_with_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A git history brings hundreds of long ones; to compare all again at each step took minutes."""
    compared: list[Exchange] = []
    distance = demos._distance

    def counted(one: Exchange, other: Exchange) -> float:
        compared.append(one)
        return distance(one, other)

    monkeypatch.setattr(demos, "_distance", counted)
    exchanges = [Exchange(Demonstration(prompt=f"word{n} other", reply="r", source=f"rec_{n}"), (False, 1.0, n)) for n in range(200)]
    assert [one.rank[2] for one in choose(exchanges, 8, 2, lambda one: 1 if one.rank[2] in (3, 150) else 9)] == [3, 150]
    assert len(compared) < 2 * len(exchanges)
