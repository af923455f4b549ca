"""The loss of `sft`: learn the replies that were accepted, stay the model that one was elsewhere.

    loss = − mean over reply tokens of log π(y)  +  w · mean over replay tokens of KL(π_base(·) ‖ π(·))

Replay tokens are the base model's own samples on plain prompts; π_base is the same weights with the LoRA off. The divergence is
taken over the whole vocabulary, so it holds the entire next-token distribution still, not only the token that was sampled.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import torch
from pydantic import Field
from torch.nn import functional

from daemon.training.job import Sample
from daemon.training.objective import Batch, Loss, Objective, ObjectiveSettings, shuffled
from daemon.training.policy import Policy

REPLAY = "replay"
CONVERSATION = "conversation"
"""A sample that shows several exchanges in a row, each reply a label."""


class SFTObjectiveSettings(ObjectiveSettings):
    divergence_weight: float = Field(1.0, ge=0)
    """w above. 0: no divergence term, and replay is not read."""
    replay_per_step: int = Field(3, ge=0)
    """Replay samples read in each step."""


class SFTObjective(Objective):
    Settings = SFTObjectiveSettings
    settings: SFTObjectiveSettings

    def steps(self, samples: Sequence[Sample], batch_size: int, rng: random.Random) -> Iterator[tuple[Sample, ...]]:
        """`batch_size` lone exchanges, one conversation if there are any, and the share of replay."""
        kinds = {
            "positive": batch_size,
            CONVERSATION: 1,
            REPLAY: self.settings.replay_per_step if self.settings.divergence_weight else 0,
        }
        draws = []
        for kind, size in kinds.items():
            of_kind = [sample for sample in samples if sample.kind == kind]
            if of_kind and size:
                draws.append(shuffled(of_kind, size, rng))
        while draws:
            yield tuple(sample for draw in draws for sample in next(draw))

    def loss(self, policy: Policy, batch: Batch) -> Loss:
        if batch.samples[0].kind == REPLAY:
            return self._divergence(policy, batch)
        weights = policy.weights(batch.samples)
        whole = sum(sample.weight * len(sample.labels) for sample in batch.step if sample.kind != REPLAY)
        logits = policy.logits(policy.hidden(batch.samples))
        losses = functional.cross_entropy(logits, policy.labels(batch.samples), reduction="none")
        value = (losses * weights).sum() / whole
        return Loss(value, {"cross_entropy": float(value.detach())})

    def _divergence(self, policy: Policy, batch: Batch) -> Loss:
        whole = sum(len(sample.labels) for sample in batch.step if sample.kind == REPLAY)
        with torch.no_grad():
            base = functional.log_softmax(policy.logits(policy.base_hidden(batch.samples)), dim=-1)
        now = functional.log_softmax(policy.logits(policy.hidden(batch.samples)), dim=-1)
        divergence = functional.kl_div(now, base, reduction="sum", log_target=True) / whole
        return Loss(self.settings.divergence_weight * divergence, {"divergence": float(divergence.detach())})
