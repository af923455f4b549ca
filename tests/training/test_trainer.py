"""The trainer on a tiny model: it learns, says how far it is, and refuses with a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from daemon.errors import ConfigError, DataError, ReefError
from daemon.records import JSONObject
from daemon.training.job import OUTPUT_FILES, RESULT_FILE, Sample, TrainingJob, read_result, write_job
from daemon.training.objective import Batch, Loss, Objective
from daemon.training.policy import Policy
from daemon.training.trainer import learning_rate, micro_batches, train
from tests.training.tiny import SAMPLES, tiny_job, write_tiny_gguf


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


class Broken(Objective):
    """Its loss leaves the numbers."""

    def loss(self, policy: Policy, batch: Batch) -> Loss:
        return Loss(policy.hidden(batch.samples).sum() * float("nan"))


def _refused(folder: Path, job: TrainingJob, samples: list[Sample], kind: type[ReefError], sentence: str) -> None:
    write_job(folder, job, samples)
    with pytest.raises(kind, match=sentence):
        train(folder, lambda _: None)
    assert not (folder / "lora.gguf").exists() and not (folder / RESULT_FILE).exists()


def test_a_training_learns_and_tells_of_each_step(base: Path, tmp_path: Path) -> None:
    folder, told = tmp_path / "job", list[JSONObject]()
    write_job(folder, tiny_job(base, steps=30), SAMPLES)
    result = train(folder, told.append)
    assert [event["step"] for event in told] == list(range(1, 31)) and {event["steps"] for event in told} == {30}
    first, last = told[0]["cross_entropy"], told[-1]["cross_entropy"]
    assert isinstance(first, float) and isinstance(last, float) and last < 0.5 * first
    assert {"divergence", "loss", "tokens_per_s"} <= told[-1].keys()
    assert read_result(folder) == result and result.steps == 30 and result.stopped == "done"
    written = {name for name in OUTPUT_FILES if (folder / name).exists()}
    assert written == {"adapter_model.safetensors", "adapter_config.json", "lora.gguf", "metrics.jsonl", "result.json"}
    assert [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()] == list(range(1, 31))


def test_the_same_seed_trains_the_same_lora(base: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_job(tmp_path / name, tiny_job(base), SAMPLES)
        train(tmp_path / name, lambda _: None)
    assert (tmp_path / "one" / "lora.gguf").read_bytes() == (tmp_path / "two" / "lora.gguf").read_bytes()


def test_time_that_is_up_ends_it_with_what_was_learned(base: Path, tmp_path: Path) -> None:
    write_job(tmp_path / "job", tiny_job(base, steps=500).model_copy(update={"max_minutes": 1e-6}), SAMPLES)
    result = train(tmp_path / "job", lambda _: None)
    assert result.stopped == "time" and result.steps == 1 and (tmp_path / "job" / "lora.gguf").exists()


def test_another_base_model_is_refused(base: Path, tmp_path: Path) -> None:
    job = tiny_job(base)
    write_tiny_gguf(base, seed=9)
    _refused(tmp_path / "job", job, SAMPLES, DataError, "has changed")
    _refused(tmp_path / "job", job.model_copy(update={"base": tmp_path / "gone.gguf"}), SAMPLES, DataError, "is missing")


def test_tokens_of_another_vocabulary_are_refused(base: Path, tmp_path: Path) -> None:
    _refused(tmp_path / "job", tiny_job(base), [Sample(prompt=(1,), completion=(64,))], DataError, "outside the vocabulary of 64")


def test_a_loss_that_is_no_number_writes_no_lora(base: Path, tmp_path: Path) -> None:
    _refused(tmp_path / "job", tiny_job(base, "tests.training.test_trainer:Broken"), SAMPLES, DataError, "left the numbers at step 1")


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        ("recipes.sft.objective", "no objective"),
        ("recipes.nowhere:X", "cannot be imported"),
        ("daemon.training.job:Sample", "no Objective"),
    ],
)
def test_an_unknown_objective_is_named(base: Path, tmp_path: Path, objective: str, sentence: str) -> None:
    _refused(tmp_path / "job", tiny_job(base, objective), SAMPLES, ConfigError, sentence)


def test_samples_that_the_objective_takes_none_of_are_refused(base: Path, tmp_path: Path) -> None:
    """Else an untrained LoRA would come out, with a loss that is no number."""
    replay = [Sample(prompt=(1, 2), completion=(3, 4), kind="replay")]
    job = tiny_job(base).model_copy(update={"settings": {"divergence_weight": 0.0}})
    _refused(tmp_path / "job", job, replay, DataError, "no step to train")


def test_an_unknown_setting_of_the_objective_is_named(base: Path, tmp_path: Path) -> None:
    job = tiny_job(base).model_copy(update={"settings": {"divergance_weight": 1}})
    _refused(tmp_path / "job", job, SAMPLES, ConfigError, "divergance_weight")


def test_long_samples_go_alone_and_kinds_never_mix() -> None:
    samples = [
        Sample(prompt=(1,) * length, completion=(2,), kind=kind) for length, kind in [(9, "a"), (7, "a"), (1, "a"), (9, "b"), (99, "b")]
    ]
    parts = list(micro_batches(samples, tokens=20))
    assert sorted(len(sample.prompt) for part in parts for sample in part) == [1, 7, 9, 9, 99]
    assert all(len({sample.kind for sample in part}) == 1 for part in parts)
    assert [[len(sample.prompt) for sample in part] for part in parts] == [[9, 7], [1], [99], [9]]


def test_the_rate_rises_for_three_steps_and_falls_towards_zero(base: Path) -> None:
    job = tiny_job(base, steps=10)
    rates = [learning_rate(job, step) for step in range(1, 11)]
    assert rates[0] < rates[1] < rates[2] and rates[2:] == sorted(rates[2:], reverse=True) and 0 < rates[-1] <= 0.1 * job.learning_rate


def test_long_samples_are_computed_with_less_memory_to_the_same_result(base: Path) -> None:
    from daemon.training.base_model import add_lora, load_base

    job = tiny_job(base)
    policy = Policy(add_lora(load_base(job), job.lora, seed=1))
    short = Sample(prompt=(1, 5, 9), completion=(7, 8, 2))
    policy._checkpoint(True)
    with_checkpoints = policy.hidden([short])
    assert policy._inner.is_gradient_checkpointing is False, "a short sample turns it off again"
    policy.hidden([Sample(prompt=(1,) * 1100, completion=(7,))]).sum().backward()
    assert policy._inner.is_gradient_checkpointing is True
    assert torch.equal(with_checkpoints, policy.hidden([short]))
