"""What differs between two releases: files, LoRA, settings, evaluation."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, JsonValue

from daemon.lora_files import layer_norms
from daemon.versions.change import changed_to
from daemon.versions.manifest import EvaluationSummary
from daemon.versions.release import LoRAFiles, Release
from daemon.versions.weights import WeightStore
from daemon.versions.word_diff import Hunk, hunks, unified

_LAYER = re.compile(r"\.layers?\.(\d+)\.")


class FileStatus(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class FileChange:
    path: str
    status: FileStatus
    unified: str  # a unified diff with three lines of context
    hunks: tuple[Hunk, ...]  # the same, word by word


@dataclass(frozen=True, slots=True)
class LoRASide:
    id: str
    size_bytes: int
    rank: JsonValue
    alpha: JsonValue
    modules: JsonValue
    norms: dict[str, float]  # layer number → Frobenius norm of what it adds to the weights; empty: not read


@dataclass(frozen=True, slots=True)
class SettingChange:
    name: str  # such as base.quantisation, engine.context, recipe.settings
    before: JsonValue
    after: JsonValue


@dataclass(frozen=True, slots=True)
class ReleaseDiff:
    before: str  # release ids
    after: str
    change: str  # what differs, in a few words
    files: tuple[FileChange, ...]
    lora_before: LoRASide | None
    lora_after: LoRASide | None
    settings: tuple[SettingChange, ...]
    evaluation_before: EvaluationSummary | None
    evaluation_after: EvaluationSummary | None
    same_content: bool


def diff(before: Release, after: Release, weights: WeightStore | None = None) -> ReleaseDiff:
    """Compare any two releases. With `weights` the norms of their LoRAs are computed; weights that are gone have none.

    Raises:
        DataError: weights are there but damaged.
    """
    return ReleaseDiff(
        before=before.id,
        after=after.id,
        change=changed_to(before, after),
        files=file_changes(before.tree.files, after.tree.files),
        lora_before=_lora_side(before.lora, weights),
        lora_after=_lora_side(after.lora, weights),
        settings=_settings(before, after),
        evaluation_before=before.manifest.evaluation,
        evaluation_after=after.manifest.evaluation,
        same_content=before.content_id == after.content_id,
    )


def file_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[FileChange, ...]:
    found: list[FileChange] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        status = FileStatus.ADDED if old is None else FileStatus.REMOVED if new is None else FileStatus.CHANGED
        names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
        places = hunks(old or "", new or "")
        found.append(FileChange(path, status, unified(names, places), places))
    return tuple(found)


def _lora_side(lora: LoRAFiles | None, weights: WeightStore | None) -> LoRASide | None:
    if lora is None:
        return None
    rank, alpha = lora.details.get("rank"), lora.details.get("alpha")
    norms: dict[str, float] = {}
    stored = lora.file("adapter_model.safetensors")
    readable = weights is not None and stored is not None and weights.path_of(stored.sha256).is_file()
    if readable and weights is not None and stored is not None and isinstance(rank, int) and isinstance(alpha, int | float):
        norms = _by_layer(layer_norms(weights.path_of(stored.sha256), float(alpha), rank))
    return LoRASide(lora.id, lora.served_bytes, rank, alpha, lora.details.get("modules"), norms)


def _by_layer(modules: dict[str, float]) -> dict[str, float]:
    """The norms of a layer's modules together: the root of the sum of their squares."""
    squares: dict[str, float] = {}
    for name, norm in modules.items():
        match = _LAYER.search(name)
        layer = match[1] if match else name
        squares[layer] = squares.get(layer, 0.0) + norm * norm
    return {layer: math.sqrt(value) for layer, value in sorted(squares.items(), key=lambda one: (len(one[0]), one[0]))}


def _settings(before: Release, after: Release) -> tuple[SettingChange, ...]:
    old, new = _flat(before), _flat(after)
    return tuple(SettingChange(name, old.get(name), new.get(name)) for name in sorted({*old, *new}) if old.get(name) != new.get(name))


def _flat(release: Release) -> dict[str, JsonValue]:
    manifest = release.manifest
    found: dict[str, JsonValue] = {f"base.{name}": value for name, value in _fields(manifest.base).items()}
    found.update({f"engine.{name}": value for name, value in manifest.engine.items()})
    if manifest.recipe is not None:
        found.update({"recipe.name": manifest.recipe.name, "recipe.path": manifest.recipe.path})
        found.update({f"recipe.{name}": value for name, value in manifest.recipe.settings.items()})
    found["seed"] = manifest.seed
    return found


def _fields(model: BaseModel) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = model.model_dump(mode="json")
    return fields
