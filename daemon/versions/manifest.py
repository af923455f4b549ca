"""The manifest `release.json`: everything that pins one release."""

from __future__ import annotations

import hashlib
import json
import math
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from daemon.errors import DataError
from daemon.records import JSON

SCHEMA_VERSION: Final = 1
SCENARIO_PATTERN: Final = r"^[a-z0-9][a-z0-9-]{0,62}$"
RELEASE_ID_PATTERN: Final = r"^r[1-9][0-9]{0,8}$"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ReleaseId = Annotated[str, Field(pattern=RELEASE_ID_PATTERN)]


class Operation(StrEnum):
    """What made a release."""

    CREATION = "creation"
    TRAINING = "training"
    ROLLBACK = "rollback"
    PROMOTE = "promote"
    UNDO = "undo"
    RECOVERY = "recovery"
    FORGET = "forget"
    EDIT = "edit"
    """A person's changes by hand."""
    PROPOSAL = "proposal"
    """An agent's, out of its own session."""


class ArtifactKind(StrEnum):
    LORA = "lora"
    CHECKPOINT = "checkpoint"
    HARNESS = "harness"
    ROUTING = "routing"


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoredFile(_Frozen):
    """One file of an artifact whose bytes lie in the LFS store."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    sha256: Sha256
    size_bytes: int = Field(ge=0)


class Artifact(_Frozen):
    """One typed part of a release. `content_id` is a sha256: of `lora.gguf` for a LoRA, of paths and texts for a harness."""

    kind: ArtifactKind
    content_id: Sha256
    size_bytes: int = Field(ge=0)
    files: tuple[StoredFile, ...] = ()
    details: dict[str, JsonValue] = Field(default_factory=dict)


class BaseModelFacts(_Frozen):
    """The base model and chat template that a release was made for."""

    model: str
    """The name that clients send."""
    file: str = ""
    """Name of the GGUF file; empty for an upstream."""
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    quantisation: str = ""
    architecture: str = ""
    template_sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")

    def same_weights(self, other: BaseModelFacts) -> bool:
        """An upstream gives no hash; there the name has to do."""
        if self.sha256 or other.sha256:
            return self.sha256 == other.sha256
        return self.model == other.model

    @property
    def put_back(self) -> str:
        """What to do before a release that was made for it can serve again."""
        digest = f" (sha256 {self.sha256})" if self.sha256 else ""
        if not self.file:
            return f"base missing: put back {self.model}{digest}."
        return f"base missing: put back {self.file}{digest}, then: reef models use {self.file}"


class RecipeFacts(_Frozen):
    name: str
    path: str = ""
    """Dotted path, `package.module:Class`."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)


class EvaluationSummary(_Frozen):
    """What the list shows; tasks and outcomes lie in `evaluation.json`."""

    held_out_before: float | None = None
    """Mean score on held-out tasks, 0 to 1."""
    held_out_after: float | None = None
    tasks: int = 0
    wins: int = 0
    losses: int = 0
    ties: int = 0
    p: float | None = None
    """One-sided exact paired test."""
    probe_rise: float | None = None
    """Relative rise of the general probe's mean token loss; .05 is five percent."""
    details: dict[str, JsonValue] = Field(default_factory=dict)


class Manifest(_Frozen):
    """The content of `release.json`. Immutable; the chain of manifests is the truth that SQLite is repaired from."""

    schema_version: int = SCHEMA_VERSION
    release_id: ReleaseId
    scenario: str = Field(pattern=SCENARIO_PATTERN)
    parent_release_id: ReleaseId | None
    operation: Operation
    created_at: float
    """Seconds since the epoch."""
    change: str
    """One line: what changed against the parent."""
    artifacts: tuple[Artifact, ...]
    base: BaseModelFacts
    engine: dict[str, JsonValue] = Field(default_factory=dict)
    """The engine settings that change what is computed."""
    recipe: RecipeFacts | None = None
    seed: int | None = None
    run_id: str | None = None
    records: tuple[str, ...] = ()
    """Receipts of the experience that this release consumed."""
    restores: ReleaseId | None = None
    """The release whose content this is (rollback, undo, promote)."""
    evaluation: EvaluationSummary | None = None
    verdict: str = ""
    """promoted, held or rejected, and why, as the gate said it."""
    who: str = ""
    """Who asked: owner, schedule, a run's id."""

    def artifact(self, kind: ArtifactKind) -> Artifact | None:
        return next((artifact for artifact in self.artifacts if artifact.kind is kind), None)

    @property
    def lora_id(self) -> str | None:
        """sha256 of the LoRA's GGUF file; None: the base model alone."""
        lora = self.artifact(ArtifactKind.LORA)
        return lora.content_id if lora else None

    @property
    def content_id(self) -> str:
        """Equal iff two releases serve the same: artifacts on one base model."""
        parts = sorted([artifact.kind.value, artifact.content_id] for artifact in self.artifacts)
        base = self.base.sha256 or self.base.model
        return hashlib.sha256(json.dumps([base, parts]).encode()).hexdigest()

    @property
    def number(self) -> int:
        return int(self.release_id[1:])

    def to_json(self) -> str:
        """Stable and readable: git shows what differs line by line."""
        dumped: JSON = self.model_dump(mode="json")
        return plain_json(dumped, lone_surrogates="replace")


def plain_json(value: JSON, *, lone_surrogates: str) -> str:
    """Readable JSON that every parser takes: a number that is not finite is null.

    `lone_surrogates`, which UTF-8 cannot hold, are handled as that codec error handler does ("replace", "backslashreplace").
    """
    text = json.dumps(_finite(value), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode(errors=lone_surrogates).decode()


def _finite(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class NewerManifest(DataError):
    """A newer Reef wrote it; nothing is wrong with it, and nothing here may touch it."""


def read_manifest(text: bytes, where: str) -> Manifest:
    """Parse `release.json`.

    Raises:
        DataError: no manifest, or one that a newer Reef wrote. `where` names it in the message.
    """
    try:
        version = json.loads(text).get("schema_version")
    except (ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"The manifest of {where} is not a JSON object.", "Run `reef fsck`.") from error
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerManifest(f"The manifest of {where} was written by a newer Reef (format {version}).", "Update Reef, then try again.")
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise DataError(f"The manifest of {where} is damaged: {field}: {first['msg']}.", "Run `reef fsck`.") from error
