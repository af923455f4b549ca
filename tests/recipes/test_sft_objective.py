"""The loss of `sft` against its formula, and the contract that every objective passes."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from daemon.training.job import Sample
from daemon.training.objective import Batch
from daemon.training.policy import Policy
from recipes.sft.objective import SFTObjective, SFTObjectiveSettings
from tests.training import objective_contract
from tests.training.tiny import SAMPLES

policy = objective_contract.policy


class TestContract(objective_contract.ObjectiveContract):
    def objective(self) -> SFTObjective:
        return SFTObjective(SFTObjectiveSettings(divergence_weight=2.0))

    def samples(self) -> Sequence[Sample]:
        return SAMPLES


def _log_probabilities(policy: Policy, sample: Sample) -> torch.Tensor:
    """(tokens, V), each row predicting the next token: computed the plain way, over all positions."""
    return torch.log_softmax(policy._model(input_ids=torch.tensor([sample.tokens])).logits[0], dim=-1)


def test_cross_entropy_is_the_weighted_mean_over_counted_tokens(policy: Policy) -> None:
    step = tuple(sample for sample in SAMPLES if sample.kind != "replay")
    total = weight = 0.0
    for sample in step:
        rows = _log_probabilities(policy, sample)
        for position in sample.labels:
            total -= sample.weight * float(rows[position - 1, sample.tokens[position]].detach())
            weight += sample.weight
    shares = [SFTObjective(SFTObjectiveSettings()).loss(policy, Batch((sample,), step)) for sample in step]
    assert sum(float(share.value.detach()) for share in shares) == pytest.approx(total / weight, rel=1e-4)


def test_divergence_is_taken_over_the_whole_vocabulary_from_the_base(policy: Policy) -> None:
    sample = next(sample for sample in SAMPLES if sample.kind == "replay")
    now = _log_probabilities(policy, sample)
    with policy._model.disable_adapter():
        base = _log_probabilities(policy, sample)
    rows = [position - 1 for position in sample.labels]
    expected = float((base.exp() * (base - now)).sum(-1)[rows].mean().detach())
    loss = SFTObjective(SFTObjectiveSettings(divergence_weight=3.0)).loss(policy, Batch((sample,), (sample,)))
    assert loss.metrics["divergence"] == pytest.approx(expected, rel=1e-3)
    assert float(loss.value.detach()) == pytest.approx(3 * expected, rel=1e-3)


def _kinds(**settings: float) -> list[Counter[str]]:
    objective = SFTObjective(SFTObjectiveSettings.model_validate(settings))
    return [Counter(sample.kind for sample in step) for step in itertools.islice(objective.steps(SAMPLES, 2, random.Random(0)), 4)]


def test_each_step_has_its_share_of_replay() -> None:
    assert _kinds(replay_per_step=1) == [Counter(positive=2, conversation=1, replay=1)] * 4


def test_without_a_divergence_term_replay_is_not_read() -> None:
    assert _kinds(divergence_weight=0.0) == [Counter(positive=2, conversation=1)] * 4
