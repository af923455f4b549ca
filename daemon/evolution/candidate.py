"""A candidate: the new state that a recipe proposes, before anything has judged it."""

from __future__ import annotations

from collections.abc import Mapping
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
