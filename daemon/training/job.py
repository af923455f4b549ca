"""The job folder: what a training is asked to do, and what comes back. No torch here: the run process reads and writes it.

In: `job.json` (`TrainingJob`) and `samples.jsonl` (one `Sample` a line). Out: `adapter_model.safetensors` and
`adapter_config.json` (PEFT's), `lora.gguf` (the engine's), `metrics.jsonl` (one step a line) and, written last, `result.json`
(`TrainingResult`); `error.json` (`TrainingFailure`) if it failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from daemon.errors import DataError
from daemon.files import write_atomic
from daemon.records import JSON

JOB_FILE = "job.json"
SAMPLES_FILE = "samples.jsonl"
METRICS_FILE = "metrics.jsonl"
RESULT_FILE = "result.json"
ERROR_FILE = "error.json"
WEIGHTS_FILE = "adapter_model.safetensors"
WEIGHTS_CONFIG_FILE = "adapter_config.json"
GGUF_FILE = "lora.gguf"
OUTPUT_FILES = (WEIGHTS_FILE, WEIGHTS_CONFIG_FILE, GGUF_FILE, METRICS_FILE, RESULT_FILE, ERROR_FILE)

LINEAR_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""All linear layers of attention and MLP; never `lm_head` nor the embeddings."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sample(_Strict):
    """One token sequence: `prompt` is read, `completion` is learned from."""

    prompt: tuple[int, ...] = Field(min_length=1)
    completion: tuple[int, ...] = Field(min_length=1)
    mask: tuple[bool, ...] | None = None
    """One entry a completion token: whether it counts. None: all do. False for what others wrote (later prompts, tool results)."""
    weight: float = Field(1.0, ge=0)
    kind: str = "positive"
    """What the objective takes it for: `positive`, `replay`, …"""
    logprobs: tuple[float, ...] | None = None
    """One entry a completion token, as recorded when it was generated (nats, temperature 1)."""

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        for name, values in (("mask", self.mask), ("logprobs", self.logprobs)):
            if values is not None and len(values) != len(self.completion):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.completion)} completion tokens")
        if self.mask is not None and not any(self.mask):
            raise ValueError("the mask leaves no token to learn from")
        return self

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.prompt + self.completion

    @property
    def labels(self) -> tuple[int, ...]:
        """Positions in `tokens` that count, ascending."""
        start = len(self.prompt)
        return tuple(start + index for index in range(len(self.completion)) if self.mask is None or self.mask[index])


class LoRASettings(_Strict):
    rank: int = Field(16, ge=1, le=256)
    alpha: int = Field(32, ge=1)
    modules: tuple[str, ...] = LINEAR_MODULES


class TrainingJob(_Strict):
    schema_version: int = 1
    base: Path
    """The GGUF file that is served; the LoRA is trained against its de-quantised weights."""
    base_sha256: str
    objective: str
    """Dotted path of the loss, `package.module:Class`; only the trainer imports it."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """The objective's own settings."""
    lora: LoRASettings = LoRASettings()
    learning_rate: float = Field(1e-3, gt=0, le=1)
    steps: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    seed: int = 0
    max_minutes: float = Field(30, gt=0)
    """Of computing time; time that the process is stopped for a request does not count."""
    threads: int = Field(2, ge=1)
    search_paths: tuple[str, ...] = ()
    """Folders where the objective's package may lie, beside what is installed."""


class TrainingResult(_Strict):
    steps: int
    stopped: str
    """`done`, or `time` when `max_minutes` ended it early."""
    loss: float
    """Of the last step."""
    metrics: dict[str, float]
    """The last step's metrics, as the objective names them."""
    tokens: int
    """Read in all, padding included."""
    cpu_s: float
    wall_s: float
    rank: int
    alpha: int
    base_sha256: str


class TrainingFailure(_Strict):
    """Why a training was refused or broke off; `error.json`."""

    message: str
    hint: str = ""


def write_job(folder: Path, job: TrainingJob, samples: Sequence[Sample]) -> None:
    """Lay a job down in `folder`, made if need be; outputs of an earlier try are removed. `job.json` is written last."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (JOB_FILE, *OUTPUT_FILES):
        (folder / name).unlink(missing_ok=True)
    write_atomic(folder / SAMPLES_FILE, "".join(sample.model_dump_json(exclude_none=True) + "\n" for sample in samples))
    write_atomic(folder / JOB_FILE, job.model_dump_json(indent=1) + "\n")


def read_job(folder: Path) -> tuple[TrainingJob, list[Sample]]:
    """Raises DataError, naming file and line, for a folder that holds no whole job."""
    try:
        job = TrainingJob.model_validate_json((folder / JOB_FILE).read_bytes())
    except OSError as error:
        raise DataError(f"{folder} holds no training job.", "Start trainings with `reef evolve`.") from error
    except ValidationError as error:
        raise DataError(f"{folder / JOB_FILE} is not a training job: {_first(error)}.") from error
    samples: list[Sample] = []
    try:
        with (folder / SAMPLES_FILE).open("rb") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    samples.append(Sample.model_validate_json(line))
                except ValidationError as error:
                    raise DataError(f"{folder / SAMPLES_FILE}, line {number}: {_first(error)}.") from error
    except OSError as error:
        raise DataError(f"{folder} holds no training samples.", "Start trainings with `reef evolve`.") from error
    if not samples:
        raise DataError(f"{folder / SAMPLES_FILE} is empty: there is nothing to train on.")
    return job, samples


def read_result(folder: Path) -> TrainingResult:
    """Raises DataError with the trainer's own sentence if it failed."""
    try:
        return TrainingResult.model_validate_json((folder / RESULT_FILE).read_bytes())
    except ValidationError as error:
        raise DataError(f"{folder / RESULT_FILE} is no training result: {_first(error)}.") from error
    except FileNotFoundError:
        pass
    try:
        failure = TrainingFailure.model_validate_json((folder / ERROR_FILE).read_bytes())
    except (OSError, ValidationError):
        raise DataError("The training ended without a result.", f"See the log in {folder}.") from None
    raise DataError(failure.message, failure.hint)


def memory_needed_bytes(parameters: int, *, vocabulary: int = 50_000) -> int:
    """What a training of a model with `parameters` weights takes at its peak, roughly: float32 weights, activations, logits.

    Measured with 135 M parameters: 0.54 GB of weights, 2.6 GB in all; this says 3.1, for other processes move too.
    """
    return 4 * parameters + 12 * parameters + 4 * 4 * 512 * vocabulary + (512 << 20)


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    place = ".".join(str(part) for part in detail["loc"])
    return f"{place}: {detail['msg']}" if place else str(detail["msg"])


def metrics_line(step: int, loss: float, metrics: dict[str, float]) -> dict[str, JSON]:
    """One line of `metrics.jsonl`."""
    return {"step": step, "loss": loss, **metrics}
