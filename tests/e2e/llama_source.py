"""The source package of the installed llama-cpp-python: 71 chat templates and many vocabularies. Fetched once, kept in the user's cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path, PurePosixPath

import pytest

PACKAGE = "llama-cpp-python"


@pytest.fixture(scope="session")
def llama_source() -> Path:
    """The folder `models` of llama.cpp as packaged: `templates/*.jinja` and `ggml-vocab-*.gguf`. Skips where it cannot be fetched."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reef-tests" / f"{PACKAGE}-{version(PACKAGE)}"
    if not cache.is_dir():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as scratch:
            _fetch(Path(scratch)).rename(cache)
    return cache


def _fetch(scratch: Path) -> Path:
    wanted = f"{PACKAGE}=={version(PACKAGE)}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE, wanted, "--dest", str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    archive = next(scratch.glob("*.tar.gz"), None)
    if archive is None:
        pytest.skip(f"pip cannot download the source of {wanted}: {done.stderr.strip()[-200:]}")
    models = scratch / "models"
    models.mkdir()
    with tarfile.open(archive) as package:
        for member in package:
            inside = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            if member.isfile() and inside.is_relative_to("vendor/llama.cpp/models") and ".." not in inside.parts:
                target = models / inside.relative_to("vendor/llama.cpp/models")
                target.parent.mkdir(parents=True, exist_ok=True)
                source = package.extractfile(member)
                target.write_bytes(source.read() if source else b"")
    return models
