"""A candidate: the new state that a recipe proposes, before anything has judged it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.records import JSON
from daemon.serving_hints import ServingHints

if TYPE_CHECKING:
    from daemon.harness.mutations import Mutation


@dataclass(frozen=True, slots=True)
class Candidate:
    """What would change. Everything that is not named here stays as the current release has it."""

    change: str  # one line, as the release list shows it: "+8 demonstrations"
    reason: str = ""
    mutations: tuple[Mutation, ...] = ()  # of the harness tree, all or none
    hints: ServingHints | None = None  # replaces serving.json
    lora_folder: Path | None = None  # adapter_model.safetensors, adapter_config.json, lora.gguf
    records: tuple[str, ...] = ()  # receipts that it was made from; a promotion consumes them
    examples: tuple[str, ...] = ()  # prompts that it contains: tasks with the same prompt are left out, in every split
    metrics: Mapping[str, JSON] = field(default_factory=dict)  # what the recipe wants to show: loss, steps, counts

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError for what a release could not hold: a recipe is anybody's code, and is told while it proposes."""
        for name in ("change", "reason"):
            _check_text(name, getattr(self, name))
        for name in ("records", "examples"):
            for text in _check_sequence(name, getattr(self, name)):
                _check_text(f"{name}[…]", text)
        _check_sequence("mutations", self.mutations)
        if self.hints is not None and not isinstance(self.hints, ServingHints):
            raise TypeError(f"hints must be ServingHints, not {type(self.hints).__name__}")
        if self.lora_folder is not None and not isinstance(self.lora_folder, Path):
            raise TypeError(f"lora_folder must be a Path, not {type(self.lora_folder).__name__}")
        json.dumps(dict(self.metrics))


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {type(value).__name__}")
    value.encode()


def _check_sequence(name: str, value: object) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a tuple, not {type(value).__name__}")
    return value
