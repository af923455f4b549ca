"""What the repository takes and gives: a draft, the prepared commit, a release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from daemon.errors import DataError
from daemon.harness_tree import HarnessTree
from daemon.records import JSON, JSONObject
from daemon.versions.manifest import RELEASE_ID_PATTERN, BaseModelFacts, EvaluationSummary, Manifest, Operation, RecipeFacts, StoredFile
from daemon.versions.mutations import MutationFacts

LORA_GGUF: Final = "lora.gguf"
LORA_FILES: Final = ("adapter_model.safetensors", "adapter_config.json", LORA_GGUF)


class ReleaseState(StrEnum):
    PUBLISHED = "published"  # in the chain: serves now, or did
    HELD = "held"  # waits for a person
    REJECTED = "rejected"  # its trace, without weights
    PROMOTED = "promoted"  # was held; a later release carries its content


@dataclass(frozen=True, slots=True)
class LoRAFiles:
    """A LoRA in the LFS store. `id` is the sha256 of its GGUF file, the name that the engine knows it by."""

    id: str
    files: tuple[StoredFile, ...]
    details: dict[str, JsonValue] = field(default_factory=dict)  # rank, alpha, modules

    @property
    def size_bytes(self) -> int:
        return sum(stored.size_bytes for stored in self.files)

    @property
    def served_bytes(self) -> int:
        """Of what the engine loads: what is told to people. The same weights lie beside it in the form that training reads."""
        served = self.file(LORA_GGUF)
        return served.size_bytes if served is not None else self.size_bytes

    def file(self, name: str) -> StoredFile | None:
        return next((stored for stored in self.files if stored.name == name), None)


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed release. Weights come from `lora_folder` (the three files of `LORA_FILES`) or are carried over in `lora`."""

    scenario: str
    operation: Operation
    base: BaseModelFacts
    harness: HarnessTree = field(default_factory=HarnessTree)
    lora_folder: Path | None = None
    lora: LoRAFiles | None = None
    change: str = ""  # empty: written by `daemon.versions.change.change_line`
    engine: dict[str, JsonValue] = field(default_factory=dict)
    recipe: RecipeFacts | None = None
    seed: int | None = None
    run_id: str | None = None
    records: tuple[str, ...] = ()
    restores: str | None = None
    summary: EvaluationSummary | None = None
    evaluation: JSONObject | None = None  # the whole of evaluation.json
    verdict: str = ""
    who: str = ""
    promotes: str | None = None  # commit id of the held candidate that this publishes
    mutations: tuple[MutationFacts, ...] = ()  # what changed in the harness, why and by whom
    compared_with: str | None = None  # the release that it was made from and evaluated against; None: the head


@dataclass(frozen=True, slots=True)
class Release:
    """One release, read. Immutable, as its commit is."""

    manifest: Manifest
    commit_id: str
    state: ReleaseState
    tree: HarnessTree
    lora: LoRAFiles | None  # None: the base model alone, or the weights of a rejected candidate
    evaluation_json: str | None = None
    parents: tuple[str, ...] = ()  # commit ids; the first is the chain, a second the held candidate that this one promoted

    @property
    def id(self) -> str:
        return self.manifest.release_id

    @property
    def content_id(self) -> str:
        return self.manifest.content_id

    def serves_as(self, other: Release) -> bool:
        """Whether both answer alike: the same content on the same base model."""
        return self.content_id == other.content_id and self.manifest.base.same_weights(other.manifest.base)

    @property
    def pending(self) -> bool:
        return self.state is ReleaseState.HELD

    @property
    def evaluation(self) -> JSONObject | None:
        """The content of evaluation.json, parsed at each call. Raises DataError where it is none."""
        if not self.evaluation_json:
            return None
        try:
            value: JSON = json.loads(self.evaluation_json)
        except (ValueError, RecursionError) as error:
            raise DataError(f"The evaluation of {self.id} is damaged.", "Run `reef fsck`.") from error
        return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Durable, but nothing refers to it yet: weights, trees and commit are written, no ref has moved."""

    draft: Draft
    release: Release
    parent_commit_id: str | None
    fresh_weights: tuple[str, ...]  # sha256 of LFS objects that this preparation brought in

    @property
    def manifest(self) -> Manifest:
        return self.release.manifest


def nearest_ids(wanted: str, known: Iterable[str]) -> list[str]:
    """The ids closest in number to `wanted`, three at most."""
    target = int(wanted[1:]) if re.fullmatch(RELEASE_ID_PATTERN, wanted) else 0
    return sorted(set(known), key=lambda one: (abs(int(one[1:]) - target), one))[:3]
