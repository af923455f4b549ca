"""`sft` from turns to a job folder, with the trainer left out (tests/e2e has it in)."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.engine.base import Capability, ModelInfo
from daemon.evolution.context import RunContext, TrainingLimits
from daemon.evolution.progress import Progress
from daemon.evolution.recipe import Batch
from daemon.experience.stream import ExperienceStream, Turn
from daemon.harness.hints import with_hints
from daemon.harness_tree import HarnessTree
from daemon.records import JSONObject
from daemon.serving_hints import Demonstration, ServingHints
from daemon.training.job import RESULT_FILE, Sample, TrainingResult, read_job
from daemon.versions.manifest import BaseModelFacts, Manifest, Operation
from daemon.versions.release import Release, ReleaseState
from recipes.sft.recipe import SFTRecipe, SFTSettings, replay_prompts
from tests.engine.fake import END, encode, render
from tests.recipes.sft_world import Routes, turn, user

CORRECTIONS = [turn(f"change {index}", correction=f"fix: {index}") for index in range(8)]


class Stream(ExperienceStream):
    def __init__(self, turns: Sequence[Turn], new: Sequence[Turn] | None = None) -> None:
        self._all, self._new = list(turns), list(turns if new is None else new)

    def all(self, limit: int = 1000) -> list[Turn]:
        return self._all

    def new(self, limit: int = 1000) -> list[Turn]:
        return self._new


@pytest.fixture
def told() -> list[JSONObject]:
    return []


@pytest.fixture
def context(tmp_path: Path, told: list[JSONObject], monkeypatch: pytest.MonkeyPatch) -> RunContext:
    def run_job(folder: Path, on_event: object, *, nice: int) -> TrainingResult:
        job, _ = read_job(folder)
        result = TrainingResult(
            steps=job.steps,
            stopped="done",
            loss=0.1,
            metrics={"cross_entropy": 0.1},
            tokens=9,
            cpu_s=1,
            wall_s=1,
            rank=job.lora.rank,
            alpha=job.lora.alpha,
            base_sha256=job.base_sha256,
        )
        (folder / RESULT_FILE).write_text(result.model_dump_json())
        return result

    monkeypatch.setattr("daemon.evolution.context.run_job", run_job)
    return _context(tmp_path, told, ServingHints())


def _context(workdir: Path, told: list[JSONObject], hints: ServingHints) -> RunContext:
    manifest = Manifest(
        release_id="r1",
        scenario="default",
        parent_release_id=None,
        operation=Operation.CREATION,
        created_at=0,
        change="",
        artifacts=(),
        base=BaseModelFacts(model="m"),
    )
    model = Routes().client()
    return RunContext(
        scenario="default",
        release=Release(manifest, "0" * 40, ReleaseState.PUBLISHED, with_hints(HarnessTree(), hints), None),
        lora_folder=None,
        model=model,
        model_info=ModelInfo("scripted", 4096, path=Path("/models/m.gguf"), sha256="0" * 64),
        capabilities=Capability.TOKEN_IDS,
        teacher=model,
        tasks=(),
        rng=random.Random(0),
        progress=Progress(told.append),
        workdir=workdir,
        seed=7,
        limits=TrainingLimits(rank=4),
    )


def _recipe(**settings: object) -> SFTRecipe:
    return SFTRecipe(SFTSettings.model_validate(settings))


def _samples(folder: Path | None, kind: str) -> list[Sample]:
    assert folder is not None
    return [sample for sample in read_job(folder)[1] if sample.kind == kind]


def _text(tokens: Sequence[int]) -> str:
    return bytes(token for token in tokens if token < 256).decode()


def test_too_few_new_corrections_wait(context: RunContext) -> None:
    assert _recipe().select(Stream(CORRECTIONS[:7])) is None
    assert _recipe().select(Stream(CORRECTIONS, new=CORRECTIONS[:7])) is None


def test_earlier_corrections_are_learned_again_with_the_new_ones() -> None:
    batch = _recipe(batch_size=3).select(Stream(CORRECTIONS, new=CORRECTIONS[5:]))
    assert batch is not None and batch.new == 3 and len(batch.turns) == 8


def test_a_candidate_names_its_records_its_prompts_and_what_it_is(context: RunContext) -> None:
    batch = _recipe().select(Stream([*CORRECTIONS, turn("good", "reply", score=1.0)]))
    assert batch is not None
    candidate = _recipe().propose(batch, context)
    assert candidate is not None and candidate.change == "LoRA r4 from 8 corrections and 1 accepted reply"
    assert candidate.records == batch.records and "change 0" in candidate.examples
    assert candidate.lora_folder is not None and candidate.hints is None


def test_a_lone_sample_is_the_prompt_as_served_and_ends_with_the_end_of_turn(context: RunContext) -> None:
    candidate = _recipe().propose(Batch(tuple(CORRECTIONS)), context)
    assert candidate is not None
    sample = _samples(candidate.lora_folder, "positive")[0]
    assert list(sample.prompt) == render((user("change 0"),), (), True)
    assert sample.completion == (*encode("fix: 0"), END) and sample.mask is None


def test_an_accepted_reply_is_trained_from_its_stored_token_ids(context: RunContext) -> None:
    accepted = turn("good", "reply", score=1.0)
    candidate = _recipe().propose(Batch((accepted,)), context)
    assert candidate is not None and accepted.inference.tokens is not None
    sample = _samples(candidate.lora_folder, "positive")[0]
    assert (sample.prompt, sample.completion) == (accepted.inference.tokens.prompt, accepted.inference.tokens.completion)


def test_what_was_said_elsewhere_ends_like_a_reply_of_the_model_although_none_was_recorded(context: RunContext) -> None:
    """What the template writes behind the end of a turn, a line break, is never sampled and must not be learned."""
    accepted = turn("good", "reply", score=1.0)
    imported = replace(accepted, inference=replace(accepted.inference, wire="import", model="other", tokens=None))
    candidate = _recipe().propose(Batch((imported,)), context)
    assert candidate is not None
    sample = _samples(candidate.lora_folder, "positive")[0]
    assert list(sample.prompt) == render((user("good"),), (), True) and sample.completion == (*encode("reply"), END)


def test_nothing_is_learned_from_the_place_of_a_secret(context: RunContext) -> None:
    """It is read, as a placeholder; every other token of the reply counts. No lone sample or conversation has it as a label."""
    secret = "[redacted:api-key]"
    told = turn("what is the key?", f"It is {secret}, as before.", score=1.0, redactions=1, masked=((6, 6 + len(secret)),))
    other = turn("and where?", "In the vault.", score=1.0)
    candidate = _recipe().propose(Batch((told, other), 2, {}), context)
    assert candidate is not None
    for kind in ("positive", "conversation"):
        for sample in _samples(candidate.lora_folder, kind):
            learned = _text([sample.tokens[position] for position in sample.labels])
            assert "redacted" not in learned
    texts = [_text([sample.tokens[position] for position in sample.labels]) for sample in _samples(candidate.lora_folder, "positive")]
    assert any("It is , as before." in text for text in texts)


def test_token_ids_that_another_model_left_are_not_trained_on(context: RunContext, told: list[JSONObject]) -> None:
    """The user changed the base model: what the old one said has its token ids, and its end of turn."""
    colon = ord(":")
    old = [turn(f"old {number}", correction=f"fix: {number}", model="other", end=colon) for number in range(3)]
    said = turn("good", "reply", score=1.0, model="other", end=colon)
    candidate = _recipe().propose(Batch((*old, said)), context)
    assert candidate is not None and said.receipt not in candidate.records
    samples = _samples(candidate.lora_folder, "positive")
    assert [_text(sample.completion).strip() for sample in samples] == [f"fix: {number}" for number in range(3)]
    assert any("said by another model" in str(event.get("text")) for event in told)


def test_a_conversation_counts_every_reply_and_no_word_of_the_user(context: RunContext) -> None:
    candidate = _recipe().propose(Batch(tuple(CORRECTIONS)), context)
    assert candidate is not None
    conversations = _samples(candidate.lora_folder, "conversation")
    assert len({sample.tokens for sample in conversations}) == 8, "each in another order"
    for sample in conversations:
        learned = [sample.tokens[position] for position in sample.labels]
        assert learned.count(END) == 8
        assert sorted(_text(learned).removeprefix("fix: ").split("fix: ")) == [str(index) for index in range(8)]


def test_exchanges_of_other_kinds_stay_out_of_the_conversation(context: RunContext) -> None:
    other = turn([{"role": "system", "content": "Be brief."}, user("x")], correction="fix: system")
    history = turn([user("a"), {"role": "assistant", "content": "b"}, user("c")], correction="fix: history")
    tools = turn("t", correction="fix: tools", request={"tools": [{"type": "function", "function": {"name": "ls"}}]})
    candidate = _recipe().propose(Batch((*CORRECTIONS[:3], other, history, tools)), context)
    assert candidate is not None
    assert len(_samples(candidate.lora_folder, "positive")) == 6
    for sample in _samples(candidate.lora_folder, "conversation"):
        assert not any(word in _text(sample.tokens) for word in ("system:", "history", "tools", "Be brief"))


def test_the_system_prefix_of_the_release_stands_before_the_prompt_and_its_demonstrations_do_not(
    context: RunContext, tmp_path: Path, told: list[JSONObject]
) -> None:
    hints = ServingHints(system_prefix="House rules.", demonstrations=(Demonstration(prompt="shown", reply="shown"),))
    candidate = _recipe().propose(Batch(tuple(CORRECTIONS)), _context(tmp_path, told, hints))
    assert candidate is not None
    for kind in ("positive", "conversation"):
        text = _text(_samples(candidate.lora_folder, kind)[0].prompt)
        assert text.startswith("system\nHouse rules.") and "shown" not in text


def test_a_demonstration_that_the_weights_have_learned_leaves_the_prompt(
    context: RunContext, tmp_path: Path, told: list[JSONObject]
) -> None:
    learned = [Demonstration(prompt="change 0", reply="fix: 0", source=CORRECTIONS[0].receipt)]
    other = Demonstration(prompt="x", reply="y", source="rec_other")
    hints = ServingHints(system_prefix="House rules.", demonstrations=(*learned, other))
    candidate = _recipe().propose(Batch(tuple(CORRECTIONS)), _context(tmp_path, told, hints))
    assert candidate is not None and candidate.change == "LoRA r4 from 8 corrections −1 demonstration"
    assert candidate.hints == ServingHints(system_prefix="House rules.", demonstrations=(other,))


def test_replay_is_sampled_from_the_base_model_at_temperature_1(context: RunContext, tmp_path: Path, told: list[JSONObject]) -> None:
    routes = Routes()
    from dataclasses import replace

    candidate = _recipe().propose(Batch(tuple(CORRECTIONS)), replace(context, model=routes.client()))
    assert candidate is not None
    chats = [(name, body) for name, route, body in routes.asked if route == "chat/completions"]
    assert len(chats) == len(replay_prompts()) >= 16 and {name for name, _ in chats} == {"base"}
    assert {body["temperature"] for _, body in chats} == {1.0} and len({str(body["seed"]) for _, body in chats}) == len(chats)
    assert len(_samples(candidate.lora_folder, "replay")) == len(chats)
    assert json.loads((tmp_path / "replay.json").read_text())[0]["prompt"] == replay_prompts()[0]


def test_too_long_an_exchange_is_left_out_and_said(context: RunContext, told: list[JSONObject]) -> None:
    candidate = _recipe(max_tokens=64).propose(Batch((*CORRECTIONS, turn("x" * 100, correction="y"))), context)
    assert candidate is not None and len(candidate.records) == 8
    assert any("1 exchange left out" in str(event.get("text")) for event in told)


def test_more_exchanges_train_longer_up_to_four_times(context: RunContext) -> None:
    def steps(count: int) -> int:
        turns = tuple(turn(f"c{index}", correction="fix: it") for index in range(count))
        candidate = _recipe(steps=10).propose(Batch(turns), context)
        assert candidate is not None and candidate.lora_folder is not None
        return read_job(candidate.lora_folder)[0].steps

    assert [steps(4), steps(16), steps(60)] == [10, 20, 40]


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="learnin_rate"):
        _recipe(learnin_rate=1)
