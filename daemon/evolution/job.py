"""What passes between the daemon and a run process: the job file, and the outcome file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from daemon.engine.base import Capability, ModelInfo
from daemon.errors import DataError
from daemon.evolution.context import TrainingLimits
from daemon.evolution.gate import FloorGate, Gate, PairedGate, ReviewGate
from daemon.harness.mutations import Mutation
from daemon.versions.manifest import EvaluationSummary, RecipeFacts
from daemon.versions.release import Release

JOB_FILE, OUTCOME_FILE, TOKEN_FILE = "job.json", "outcome.json", "token"
CANDIDATE = "candidate"
"""The name under which a run's evaluation asks for its candidate."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GateChoice(_Strict):
    """The configured gate, used where the recipe names none."""

    kind: Literal["paired", "floor", "review"] = "paired"
    alpha: float = 0.1
    probe_max_rise: float = 0.05

    def make(self) -> Gate:
        if self.kind == "floor":
            return FloorGate(probe_max_rise=self.probe_max_rise)
        if self.kind == "review":
            return ReviewGate(probe_max_rise=self.probe_max_rise)
        return PairedGate(self.alpha, probe_max_rise=self.probe_max_rise)


class TeacherChoice(_Strict):
    """An external teacher; its key comes in the environment variable that `api_key_env` names."""

    url: str
    model: str
    api_key_env: str | None = None
    tokens_per_day: int | None = None
    cost_per_day: float | None = None
    spent: Path
    """The file that says what was spent today."""


class Replayed(_Strict):
    """A held candidate that has aged, put onto what serves now: nothing is to be proposed, only to be evaluated."""

    release_id: str
    """The candidate's."""
    commit_id: str
    compared_with: str
    """The release that it was evaluated against before."""
    change: str
    mutations: tuple[Mutation, ...] = ()
    """What the candidate says of its own changes."""
    harness: dict[str, str]
    """The whole tree of the two together: path → text."""
    lora_folder: Path | None = None
    """The candidate's LoRA, checked out; absent: that of what serves goes on."""
    records: tuple[str, ...] = ()
    examples: frozenset[str] = frozenset()
    """Marks of the prompts that it contains."""
    recipe: RecipeFacts | None = None
    seed: int | None = None
    who: str = ""
    confirmed: frozenset[str] = frozenset()
    """Ids of what the guard finds in the two together and the person who asked said yes to."""


class RunJob(_Strict):
    """Everything that a run process needs to know. Holds no secret: the run's token lies in its own file of mode 0600."""

    run_id: str
    scenario: str
    folder: Path
    """This run's own folder in the home: job, token, outcome, work."""
    home: Path
    base_url: str
    recipe: str
    search_paths: tuple[Path, ...] = ()
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    release: Release
    """What serves, and what a candidate is compared with; without its evaluation, which a proposer must not see."""
    lora_folder: Path | None = None
    """The current release's LoRA files, checked out."""
    model: ModelInfo
    capabilities: int
    tasks: Path
    looks: Path
    gate: GateChoice = GateChoice()
    training: TrainingLimits = TrainingLimits()
    teacher: TeacherChoice | None = None
    seed: int = 0
    dry_run: bool = False
    reread: bool = False
    """A person asked for this run: consumed experience counts as new, so that another recipe can learn from it too."""
    replays: Replayed | None = None
    """What is evaluated instead of a recipe's proposal."""
    personal: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Lines of what serves that a person wrote, by path."""

    @property
    def confirmed(self) -> frozenset[str]:
        return self.replays.confirmed if self.replays is not None else frozenset()

    @property
    def can(self) -> Capability:
        return Capability(self.capabilities)


class Outcome(_Strict):
    """How a run ended, and what the daemon publishes, holds or rejects."""

    verdict: Literal["promoted", "held", "rejected", "nothing"]
    """`nothing`: there was no candidate."""
    sentence: str
    change: str = ""
    reason: str = ""
    mutations: tuple[Mutation, ...] = ()
    """What the recipe proposed, as far as it is not the whole file."""
    harness: dict[str, str] = Field(default_factory=dict)
    """The candidate's whole tree: path → text."""
    lora_folder: Path | None = None
    """A new LoRA; absent: the current release's goes on."""
    records: tuple[str, ...] = ()
    recipe: RecipeFacts | None = None
    summary: EvaluationSummary | None = None
    evaluation: dict[str, JsonValue] | None = None


def read_job(path: Path) -> RunJob:
    """Raises DataError for a file that is no job."""
    try:
        return RunJob.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise DataError(f"{path} is no run's job: {error}.", "Start runs with `reef evolve`.") from error


def read_outcome(path: Path) -> Outcome:
    """Raises DataError when the run left no valid outcome."""
    try:
        return Outcome.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise DataError("The run left no valid outcome.", f"See the log beside {path}.") from error
