"""From a draft to its manifest: artifacts, and the weights in the LFS store."""

from __future__ import annotations

import json

from pydantic import JsonValue

from daemon.errors import DataError
from daemon.files import sha256_file
from daemon.harness_tree import HarnessTree
from daemon.versions.manifest import Artifact, ArtifactKind, Manifest, read_manifest
from daemon.versions.mutations import Mutations, inverse
from daemon.versions.release import LORA_FILES, LORA_GGUF, Draft, LoRAFiles, Release
from daemon.versions.weights import WeightStore


def lora_of(draft: Draft, weights: WeightStore) -> tuple[LoRAFiles | None, tuple[str, ...]]:
    """The draft's LoRA, durable in the store, and the sha256 of the objects that it brought in.

    Raises:
        DataError: a file is missing from the folder, or carried-over weights from the store.
    """
    if draft.lora_folder is None:
        for stored in draft.lora.files if draft.lora else ():
            if not weights.is_whole(stored):
                raise DataError(f"The weights {stored.name} (sha256 {stored.sha256}) are missing or altered.", "Run `reef fsck`.")
        return draft.lora, ()
    kept = weights.put([draft.lora_folder / name for name in LORA_FILES])
    gguf = next(stored for stored in kept.files if stored.name == LORA_GGUF)
    config = next(stored for stored in kept.files if stored.name == "adapter_config.json")
    return LoRAFiles(gguf.sha256, kept.files, _details(weights.path_of(config.sha256).read_bytes())), kept.fresh


def _details(config_json: bytes) -> dict[str, JsonValue]:
    """Rank, alpha and modules out of PEFT's `adapter_config.json`."""
    try:
        config = json.loads(config_json)
    except ValueError as error:
        raise DataError("adapter_config.json is not JSON.", "Let the trainer write it again.") from error
    if not isinstance(config, dict):
        raise DataError("adapter_config.json is no JSON object.", "Let the trainer write it again.")
    modules = config.get("target_modules")
    names: list[JsonValue] = list(sorted(str(one) for one in modules)) if isinstance(modules, list) else [str(modules)]
    return {"rank": config.get("r"), "alpha": config.get("lora_alpha"), "modules": names}


def content_id_of(draft: Draft) -> str:
    """The content id that a release of this draft would have; nothing is stored."""
    lora = draft.lora if draft.lora_folder is None else LoRAFiles(sha256_file(draft.lora_folder / LORA_GGUF), ())
    return manifest_of(draft, "r1", None, lora, 0.0).content_id


def mutations_text(draft: Draft, release_id: str, parent: Release | None) -> str | None:
    """The text of mutations.json; None where the draft says nothing of its changes."""
    if not draft.mutations:
        return None
    back = inverse(parent.tree if parent is not None else HarnessTree(), draft.harness)
    against = parent.id if parent is not None else None
    return Mutations(scenario=draft.scenario, release_id=release_id, against=against, mutations=draft.mutations, inverse=back).to_json()


def manifest_of(draft: Draft, release_id: str, parent_id: str | None, lora: LoRAFiles | None, now: float) -> Manifest:
    """The manifest of a draft. `now` in seconds since the epoch."""
    artifacts: list[Artifact] = []
    if lora is not None:
        artifacts.append(
            Artifact(kind=ArtifactKind.LORA, content_id=lora.id, size_bytes=lora.size_bytes, files=lora.files, details=lora.details)
        )
    if draft.harness.files:
        details: dict[str, JsonValue] = {"files": len(draft.harness.files)}
        harness = draft.harness
        artifacts.append(Artifact(kind=ArtifactKind.HARNESS, content_id=harness.content_id, size_bytes=harness.size_bytes, details=details))
    manifest = Manifest(
        release_id=release_id,
        scenario=draft.scenario,
        parent_release_id=parent_id,
        operation=draft.operation,
        created_at=now,
        change=draft.change,
        artifacts=tuple(artifacts),
        base=draft.base,
        engine=draft.engine,
        recipe=draft.recipe,
        seed=draft.seed,
        run_id=draft.run_id,
        records=draft.records,
        restores=draft.restores,
        evaluation=draft.summary,
        verdict=draft.verdict,
        who=draft.who,
    )
    return read_manifest(manifest.to_json().encode(), release_id)  # what is in memory is what is on disk
