"""One immutable state that serves: what a release means to a request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from daemon.engine.base import LoRA
from daemon.serving_hints import ServingHints
from daemon.versions.manifest import BaseModelFacts

_NO_HINTS = ServingHints()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A release, ready to answer. `release_id` is `base` for the base model without hints, or a run's candidate."""

    scenario: str
    release_id: str
    lora: LoRA | None = None
    hints: ServingHints = field(default_factory=ServingHints)
    content_id: str = ""  # of everything that the release holds
    base: BaseModelFacts | None = None  # the model that it was made for; None: it goes with any
    plain: bool = field(init=False, compare=False)  # no hint changes what is asked, no LoRA what is answered

    def __post_init__(self) -> None:
        object.__setattr__(self, "plain", self.lora is None and self.hints == _NO_HINTS)


def base_snapshot(scenario: str) -> Snapshot:
    """The base model alone."""
    return Snapshot(scenario, "base")


class ReleaseSource(ABC):
    """Where serving finds releases that are not the head."""

    @abstractmethod
    async def snapshot(self, scenario: str, release_id: str) -> Snapshot:
        """The snapshot of a release, its LoRA file on disk. Raises `NotFound` for an unknown one."""
