"""Bootstrap few-shot: the best accepted or corrected exchanges become demonstrations in the served prompt.

No weights change and no teacher is needed. An exchange counts if a report gave it a score of at least `min_score`, or corrected it (the
correction then stands for the reply). Of several answers to one prompt the best is kept. When they do not all fit into `budget_tokens`,
they are chosen to differ: each next one is the one least like those already taken, the closest pair counting (farthest-first traversal).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import Field

from daemon.engine.base import Capability
from daemon.evolution.candidate import Candidate
from daemon.evolution.context import RunContext
from daemon.evolution.recipe import Batch, Recipe, RecipeSettings, Target
from daemon.experience.stream import ExperienceStream, Turn
from daemon.harness.hints import read_hints
from daemon.records import Message
from daemon.serving_hints import Demonstration

_REDACTED = "[redacted:"  # stands in a correction that held a secret; shown, it would be imitated
_WORD = re.compile(r"\w+")
_CHARACTERS_A_TOKEN = 3.0  # a cautious guess for engines that do not tokenise for us
Cost: TypeAlias = "Callable[[Exchange], int]"
"""Tokens that showing an exchange takes."""


class DemosSettings(RecipeSettings):
    batch_size: int = Field(4, ge=1)
    """How many new usable exchanges make a run worth while."""
    min_score: float = 0.5
    """The score from which an exchange counts as accepted."""
    max_demonstrations: int = Field(8, ge=1, le=64)
    """How many are shown at most."""
    budget_tokens: int = Field(1200, ge=32)
    """How many tokens of each prompt they may take."""
    window_share: float = Field(0.25, gt=0, le=0.5)
    """Nor more than this share of the model's window."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One usable exchange. Higher `rank` is better: a correction, then the score, then the newer."""

    demonstration: Demonstration
    rank: tuple[bool, float, int]

    @property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.demonstration.prompt.casefold()))


class DemosRecipe(Recipe):
    name = "demos"
    target = Target.HARNESS
    needs = Capability.NONE
    Settings = DemosSettings
    settings: DemosSettings

    def select(self, stream: ExperienceStream) -> Batch | None:
        new = {turn.receipt for turn in stream.new() if self._exchange(turn) is not None}
        if len(new) < self.settings.batch_size:
            return None
        turns = stream.all()
        usable = tuple(turn for turn in turns if self._exchange(turn) is not None)
        return Batch(usable, len(new), {"not accepted, or not a single exchange": len(turns) - len(usable)})

    def propose(self, batch: Batch, context: RunContext) -> Candidate | None:
        exchanges = best_of_each([exchange for turn in batch.turns if (exchange := self._exchange(turn)) is not None])
        budget = min(self.settings.budget_tokens, int(self.settings.window_share * context.model_info.context_tokens))
        chosen = choose(exchanges, self.settings.max_demonstrations, budget, lambda one: _tokens(one.demonstration, context))
        if not chosen:
            return None
        context.progress.note(f"{len(chosen)} of {len(exchanges)} different prompts become demonstrations.")
        current = read_hints(context.release.tree)
        # In the order of the stream, so that the same choice gives the same prompt, and its cached prefix lives on.
        shown = tuple(exchange.demonstration for exchange in sorted(chosen, key=lambda exchange: exchange.rank[2]))
        added = len({one.prompt for one in shown} - {one.prompt for one in current.demonstrations})
        removed = len({one.prompt for one in current.demonstrations} - {one.prompt for one in shown})
        counts = [(sign, count) for sign, count in (("+", added), ("−", removed)) if count]
        signs = [f"{sign}{count} demonstration{'' if count == 1 else 's'}" for sign, count in counts]
        return Candidate(
            change=" ".join(signs) or "demonstrations changed",
            reason="exchanges that the user accepted or corrected",
            hints=current.model_copy(update={"demonstrations": shown}),
            records=tuple(one.source for one in shown),
            examples=tuple(one.prompt for one in shown),
            metrics={"demonstrations": len(shown), "candidates": len(exchanges)},
        )

    def _exchange(self, turn: Turn) -> Exchange | None:
        """A turn that can stand alone: one user message, and a reply that was accepted or corrected."""
        inference = turn.inference
        spoken = [message for message in inference.messages if message.get("role") not in ("system", "developer")]
        if len(spoken) != 1 or spoken[0].get("role") != "user" or inference.redactions:
            return None
        prompt, said = spoken[0].get("content"), inference.reply.get("content")
        reply = turn.correction or (said if isinstance(said, str) and not inference.reply.get("tool_calls") else None)
        accepted = turn.correction is not None or (turn.score is not None and turn.score >= self.settings.min_score)
        if not accepted or not isinstance(prompt, str) or not prompt.strip() or not reply or not reply.strip() or _REDACTED in reply:
            return None
        demonstration = Demonstration(prompt=prompt, reply=reply, source=inference.id)
        return Exchange(demonstration, (turn.correction is not None, turn.score or 0.0, inference.sequence))


def best_of_each(exchanges: list[Exchange]) -> list[Exchange]:
    """One exchange a prompt, white space and case aside; best first."""
    best: dict[str, Exchange] = {}
    for exchange in exchanges:
        key = " ".join(exchange.demonstration.prompt.split()).casefold()
        if key not in best or exchange.rank > best[key].rank:
            best[key] = exchange
    return sorted(best.values(), key=lambda exchange: exchange.rank, reverse=True)


def choose(exchanges: list[Exchange], most: int, budget_tokens: int, cost: Cost) -> list[Exchange]:
    """At most `most` exchanges within the budget: all of them if they fit, else the best and then the least alike."""
    left = list(exchanges)
    nearest = [1.0] * len(left)  # the distance of each to the nearest of the chosen
    chosen: list[Exchange] = []
    while left and len(chosen) < most:
        place = max(range(len(left)), key=nearest.__getitem__)
        pick, _ = left.pop(place), nearest.pop(place)
        price = cost(pick)
        if price <= budget_tokens:
            budget_tokens -= price
            chosen.append(pick)
            nearest = [min(known, _distance(one, pick)) for one, known in zip(left, nearest, strict=True)]
    return chosen


def _distance(one: Exchange, other: Exchange) -> float:
    """1 − Jaccard similarity of the prompts' words."""
    union = one.words | other.words
    return 1 - len(one.words & other.words) / len(union) if union else 0.0


def _tokens(demonstration: Demonstration, context: RunContext) -> int:
    if Capability.TOKEN_IDS not in context.capabilities:
        return int(len(demonstration.prompt + demonstration.reply) / _CHARACTERS_A_TOKEN) + 8
    shown: list[Message] = [{"role": "user", "content": demonstration.prompt}, {"role": "assistant", "content": demonstration.reply}]
    return len(context.model.render(shown, add_generation_prompt=False))
