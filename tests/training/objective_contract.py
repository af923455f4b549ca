"""What every objective must hold. A test module subclasses `ObjectiveContract` and gives the objective and samples for it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from daemon.training.base_model import add_lora, load_base
from daemon.training.job import Sample
from daemon.training.objective import Batch, Objective
from daemon.training.policy import Policy
from daemon.training.trainer import micro_batches
from tests.training.tiny import tiny_job, write_tiny_gguf


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """A LoRA on the tiny model, already a little away from the base."""
    job = tiny_job(write_tiny_gguf(tmp_path / "tiny.gguf"))
    model = add_lora(load_base(job), job.lora, seed=1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return Policy(model)


class ObjectiveContract:
    def objective(self) -> Objective:
        raise NotImplementedError

    def samples(self) -> Sequence[Sample]:
        raise NotImplementedError

    def _step(self) -> tuple[Sample, ...]:
        return next(self.objective().steps(self.samples(), 3, random.Random(0)))

    def test_a_step_can_be_computed_in_parts(self, policy: Policy) -> None:
        """Long samples do not fit into memory together: the parts' losses, metrics and gradients must add up."""
        step, objective = self._step(), self.objective()
        totals = []
        for tokens in (10_000, 1):
            for parameter in policy.parameters():
                parameter.grad = None
            value, metrics = 0.0, dict[str, float]()
            for part in micro_batches(step, tokens):
                loss = objective.loss(policy, Batch(part, step))
                loss.value.backward()
                value += float(loss.value.detach())
                for name, share in loss.metrics.items():
                    metrics[name] = metrics.get(name, 0.0) + share
            gradient = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
            totals.append((value, metrics, gradient))
        (value_a, metrics_a, gradient_a), (value_b, metrics_b, gradient_b) = totals
        assert math.isfinite(value_a) and gradient_a.abs().sum() > 0
        assert value_a == pytest.approx(value_b, rel=1e-4)
        assert metrics_a == pytest.approx(metrics_b, rel=1e-4)
        assert torch.allclose(gradient_a, gradient_b, atol=1e-5)

    def test_only_the_lora_is_moved(self, policy: Policy) -> None:
        step = self._step()
        loss = self.objective().loss(policy, Batch(tuple(next(iter(micro_batches(step)))), step))
        loss.value.backward()
        assert all("lora_" in name for name, p in policy._model.named_parameters() if p.grad is not None)

    def test_steps_never_end_and_are_the_same_for_a_seed(self) -> None:
        one, other = (list(itertools.islice(self.objective().steps(self.samples(), 2, random.Random(5)), 7)) for _ in range(2))
        assert one == other and all(one)
