"""`sft`: learn the replies that a user accepted, and the replies as the user would have had them, as a LoRA.

Rejection sampling in its plainest form: what was scored at or above `min_score` is learned, a correction replaces the reply, at most two
of one prompt. Every training starts from the base model and rereads what earlier releases were made from, so that a newer LoRA
replaces the older one without forgetting it. An exchange that the weights have learned needs no demonstration any more: it leaves the
served prompt, which then is shorter and says nothing to requests of another kind. What keeps the rest of the model in place is in
`objective.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from importlib import resources

from pydantic import Field

from daemon.engine.base import Capability
from daemon.evolution.candidate import Candidate
from daemon.evolution.context import RunContext
from daemon.evolution.recipe import Batch, Recipe, RecipeSettings, Target
from daemon.experience.stream import ExperienceStream
from daemon.files import write_atomic
from daemon.harness.hints import read_hints
from daemon.records import JSON
from daemon.training.job import Sample, read_result
from recipes.sft.exchanges import Exchange, choose, failed, usable
from recipes.sft.samples import Renderer

OBJECTIVE = "recipes.sft.objective:SFTObjective"
REPLAY_PROMPTS = "replay_prompts.txt"
_USUAL_EXCHANGES = 8
_LONGEST_TRAINING = 4


class SFTSettings(RecipeSettings):
    """Settings of `sft`. The defaults were chosen from docs/learning-curve.md."""

    min_score: float = 0.5
    """A reply with this score or a higher one is accepted."""
    per_task: int = Field(2, ge=1)
    """How many accepted replies to one prompt are learned."""
    max_exchanges: int = Field(64, ge=1)
    """The newest so many are learned from; older ones are left."""
    max_tokens: int = Field(2048, ge=16)
    """Longer exchanges are left out, and counted."""
    steps: int = Field(18, ge=1)
    """Training steps for up to eight exchanges; more exchanges lengthen the training in proportion, four times at most."""
    exchanges_per_step: int = Field(4, ge=1)
    """Lone exchanges in a step, beside one conversation of them."""
    learning_rate: float = Field(1e-3, gt=0, le=0.1)
    """Of the LoRA, at its highest; it falls to zero in a straight line."""
    divergence_weight: float = Field(1.0, ge=0)
    """How much staying the base model on replay counts against learning. 0 leaves replay out."""
    replay_per_step: int = Field(3, ge=0)
    """Replay samples in a step: replies of the base model to unrelated prompts."""
    replay_tokens: int = Field(80, ge=8)
    """Length of a replay sample's reply."""


class SFTRecipe(Recipe):
    name = "sft"
    target = Target.BOTH  # the weights; and demonstrations that they have learned leave the prompt
    needs = Capability.TOKEN_IDS | Capability.LORA | Capability.TRAINABLE
    Settings = SFTSettings
    settings: SFTSettings

    def select(self, stream: ExperienceStream) -> Batch | None:
        """New usable exchanges, with the earlier ones; None while fewer than `batch_size` are new."""
        settings, turns = self.settings, stream.all()
        exchanges, unusable = usable(turns, settings.min_score, settings.max_staleness)
        chosen, left = choose(exchanges, settings.per_task, settings.max_exchanges, failed(turns, settings.min_score))
        new = {turn.receipt for turn in stream.new()}
        fresh = sum(exchange.turn.receipt in new for exchange in chosen)
        if not chosen or fresh < settings.batch_size:
            return None
        return Batch(tuple(exchange.turn for exchange in chosen), fresh, {**unusable, **left})

    def propose(self, batch: Batch, context: RunContext) -> Candidate | None:
        settings = self.settings
        exchanges, _ = usable(batch.turns, settings.min_score, settings.max_staleness)
        _tell_skipped(context, batch.skipped)
        hints = read_hints(context.release.tree)
        renderer = Renderer(context.model.at("base"), context.model_info.id, hints, exchanges)
        lone: list[Sample] = []
        learned: list[Exchange] = []
        for exchange in exchanges:
            sample = renderer.single(exchange)
            if sample is not None and len(sample.tokens) <= settings.max_tokens:
                lone.append(sample)
                learned.append(exchange)
        if len(learned) < len(exchanges):
            left = len(exchanges) - len(learned)
            context.progress.note(
                f"{left} exchange{'' if left == 1 else 's'} left out: too long, said by another model, or not kept by the template."
            )
        if not learned:
            return None
        samples = lone + renderer.conversations(learned, context.rng) + self._replay(context)
        growth = min(_LONGEST_TRAINING, max(1.0, len(learned) / _USUAL_EXCHANGES))
        folder = context.train(
            samples,
            OBJECTIVE,
            {"divergence_weight": settings.divergence_weight, "replay_per_step": settings.replay_per_step},
            steps=round(settings.steps * growth),
            learning_rate=settings.learning_rate,
            batch_size=settings.exchanges_per_step,
        )
        result = read_result(folder)
        corrected = sum(exchange.corrected for exchange in learned)
        metrics: dict[str, JSON] = {"corrections": corrected, "accepted": len(learned) - corrected, "steps": result.steps, **result.metrics}
        records = tuple(exchange.turn.receipt for exchange in learned)
        remaining = tuple(shown for shown in hints.demonstrations if shown.source not in records)
        taken = len(hints.demonstrations) - len(remaining)
        taken_out = f" −{taken} demonstration{'' if taken == 1 else 's'}" if taken else ""
        return Candidate(
            change=f"LoRA r{result.rank} from {_count(corrected, len(learned) - corrected)}{taken_out}",
            reason="Replies that the user accepted or corrected.",
            hints=hints.model_copy(update={"demonstrations": remaining}) if taken else None,
            lora_folder=folder,
            records=records,
            examples=tuple(exchange.prompt_text for exchange in learned),
            metrics=metrics,
        )

    def _replay(self, context: RunContext) -> list[Sample]:
        """The base model's own replies, sampled at temperature 1 from its whole distribution; kept with the run."""
        if not (self.settings.divergence_weight and self.settings.replay_per_step):
            return []
        base = context.model.at("base")
        samples: list[Sample] = []
        texts: list[JSON] = []
        for number, prompt in enumerate(replay_prompts()):
            reply = base.chat(
                [{"role": "user", "content": prompt}],
                max_tokens=self.settings.replay_tokens,
                temperature=1.0,
                seed=context.seed + number,
            )
            if reply.tokens is not None and reply.tokens.completion:
                samples.append(Sample(prompt=reply.tokens.prompt, completion=reply.tokens.completion, kind="replay"))
                texts.append({"prompt": prompt, "reply": reply.text})
        write_atomic(context.workdir / "replay.json", json.dumps(texts, ensure_ascii=False, indent=1) + "\n")
        return samples


def replay_prompts() -> list[str]:
    """Short prompts that have nothing to do with any workload."""
    text = resources.files("recipes.sft").joinpath(REPLAY_PROMPTS).read_text("utf-8")
    return [line for line in text.splitlines() if line.strip()]


def _tell_skipped(context: RunContext, skipped: Mapping[str, int]) -> None:
    if skipped:
        listed = ", ".join(f"{count} {reason}" for reason, count in Counter(skipped).most_common())
        context.progress.note(f"Turns left out: {listed}.")


def _count(corrected: int, accepted: int) -> str:
    parts = []
    if corrected:
        parts.append(f"{corrected} correction{'' if corrected == 1 else 's'}")
    if accepted:
        parts.append(f"{accepted} accepted repl{'y' if accepted == 1 else 'ies'}")
    return " and ".join(parts)
