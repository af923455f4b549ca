"""A run's own folder in the home: made before it starts, and tidied when it has ended."""

from __future__ import annotations

import shutil
from pathlib import Path

from daemon.errors import ReefError, StorageError
from daemon.evolution.job import JOB_FILE, TOKEN_FILE, RunJob
from daemon.evolution.replaying import REPLAYED_LORA
from daemon.files import write_atomic
from daemon.versions.release import Release
from daemon.versions.repository import Repository

_CURRENT_LORA = "current-lora"


def make(folder: Path, release: Release, repository: Repository) -> Path | None:
    """Make the folder; where in it the LoRA of what serves was checked out to. Raises StorageError, DataError: there is none then."""
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise StorageError(f"Cannot make {folder}: {error.strerror}.", "Free disk space or mend the permissions.") from error
    try:
        return repository.checkout_lora_folder(release, folder / _CURRENT_LORA)
    except ReefError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def lay_down(job: RunJob, token: str) -> None:
    """What the run process reads: its job, and its token in a file of its own."""
    job.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(job.folder / TOKEN_FILE, token, 0o600)
    write_atomic(job.folder / JOB_FILE, job.model_dump_json(), 0o600)


def tidy(folder: Path) -> None:
    """What a run leaves for reading stays: job, outcome, logs, metrics. Its token is dead, and weights that matter are in a release."""
    (folder / TOKEN_FILE).unlink(missing_ok=True)
    for name in (_CURRENT_LORA, REPLAYED_LORA, "checks"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for pattern in ("*.gguf", "*.safetensors"):
        for weights in folder.rglob(pattern):
            weights.unlink(missing_ok=True)
