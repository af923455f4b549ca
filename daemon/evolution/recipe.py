"""The Recipe interface: one learning method, found by name or by dotted path.

A recipe selects experience, proposes a candidate and names its gate. It runs in the run process, never in
the daemon: what it raises, leaks or blocks ends with that process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from daemon.engine.base import Capability
from daemon.evolution.candidate import Candidate
from daemon.evolution.gate import Gate

if TYPE_CHECKING:
    from daemon.evolution.context import RunContext
    from daemon.experience.stream import ExperienceStream, Turn


class Target(Flag):
    """What a recipe changes."""

    HARNESS = auto()
    MODEL = auto()
    BOTH = HARNESS | MODEL


class RecipeSettings(BaseModel):
    """What `serve.yaml` may set under `reef:` for every recipe; a recipe's own settings extend it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    batch_size: int = Field(8, ge=1)
    """How many new usable exchanges make a run worth while."""
    max_staleness: int = Field(18, ge=0)
    """A record is not used for a loss once more than this many different LoRAs have served since it was produced."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The experience that one run works on."""

    turns: tuple[Turn, ...]
    new: int = 0  # how many of them no earlier release has consumed
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason → how many turns were left out for it

    @property
    def records(self) -> tuple[str, ...]:
        """The receipts of the turns, in order."""
        return tuple(turn.inference.id for turn in self.turns)


class Recipe(ABC):
    """A learning method. Runs in the run process, never in the daemon."""

    name: ClassVar[str]
    target: ClassVar[Target]
    needs: ClassVar[Capability] = Capability.NONE
    """What the engine must be able to do; a run is refused by name when it cannot."""
    takes_instructions: ClassVar[bool] = False
    """Whether it reads what users say in words (`reef train`): `stream.instructions()`."""
    Settings: ClassVar[type[BaseModel]] = RecipeSettings
    """What `serve.yaml` may set under `reef:`; unknown keys are refused."""

    def __init__(self, settings: BaseModel) -> None:
        """`settings` is an instance of this recipe's `Settings`, already validated."""
        self.settings = settings

    @abstractmethod
    def select(self, stream: ExperienceStream) -> Batch | None:
        """The experience to learn from now; None: not enough yet."""

    @abstractmethod
    def propose(self, batch: Batch, context: RunContext) -> Candidate | None:
        """A new state, without any effect on what serves; None: nothing worth trying."""

    def gate(self) -> Gate | None:
        """The gate that decides; None: the configured one (by default the paired gate)."""
        return None
