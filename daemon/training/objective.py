"""The Objective interface: what a training minimises. Imports torch, so only the trainer imports it."""

from __future__ import annotations

import importlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from daemon.errors import ConfigError
from daemon.training.job import Sample
from daemon.training.policy import Policy


class ObjectiveSettings(BaseModel):
    """A loss without settings; an objective's own model extends it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call of `loss` works on."""

    samples: tuple[Sample, ...]
    """A part of the step's samples, all of one kind, as many as fit into memory."""
    step: tuple[Sample, ...]
    """All of the step's samples: what a mean is taken over."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The parts of one step add up: `value` and each metric are shares of the step's."""

    value: Tensor
    metrics: dict[str, float] = field(default_factory=dict)


class Objective(ABC):
    """A loss over samples. Every implementation passes `tests/training/objective_contract.py`."""

    Settings: ClassVar[type[BaseModel]] = ObjectiveSettings

    def __init__(self, settings: BaseModel) -> None:
        """`settings` is an instance of this objective's `Settings`, already validated."""
        self.settings = settings

    def steps(self, samples: Sequence[Sample], batch_size: int, rng: random.Random) -> Iterator[tuple[Sample, ...]]:
        """The samples of each step, without end: by default shuffled rounds over all of them."""
        yield from shuffled(samples, batch_size, rng)

    @abstractmethod
    def loss(self, policy: Policy, batch: Batch) -> Loss:
        """The loss of `batch.samples`, as a share of the mean over `batch.step`; gradients flow into the LoRA alone."""


def shuffled(samples: Sequence[Sample], size: int, rng: random.Random) -> Iterator[tuple[Sample, ...]]:
    """`size` samples at a time, each as often as any other; without end. `size` is cut to what there is."""
    size = min(size, len(samples))
    waiting: list[Sample] = []
    while True:
        while len(waiting) < size:
            waiting += rng.sample(list(samples), len(samples))
        yield tuple(waiting[:size])
        del waiting[:size]


def load_objective(path: str, settings: Mapping[str, object]) -> Objective:
    """Import `package.module:Class` and make it.

    Raises:
        ConfigError: it cannot be imported, is no Objective, or a setting is unknown or out of range.
    """
    module_name, separator, class_name = path.partition(":")
    if not separator:
        raise ConfigError(f"{path!r} is no objective.", "Write it as package.module:Class.")
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except ImportError as error:
        raise ConfigError(f"The objective {path} cannot be imported: {error}.", "Does its folder lie beside serve.yaml?") from error
    if not (isinstance(found, type) and issubclass(found, Objective)):
        raise ConfigError(f"{path} is no Objective.", "Derive the class from daemon.training.objective.Objective.")
    try:
        return found(found.Settings.model_validate(dict(settings)))
    except ValidationError as error:
        detail = error.errors()[0]
        name = ".".join(str(part) for part in detail["loc"])
        raise ConfigError(f"Setting {name!r} of the objective {path}: {detail['msg']}.") from error
