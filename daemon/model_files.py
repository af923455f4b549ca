"""What a model's file is: whether it can serve, and which models there are here."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import DataError, NotFound, ReefError
from daemon.gguf import GGUFHeader, read_header
from daemon.models import EMBEDDED, TRAINABLE_ARCHITECTURES, embedded_file, embedded_model, model_id
from daemon.paths import Home
from daemon.records import JSONObject

_ENCODERS = {
    *("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "eurobert", "jina-bert-v2", "jina-bert-v3"),
    *("gemma-embedding", "llama-embed", "t5encoder"),
}
_OTHERS = {
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), "writes by diffusion, not word after word"),
    **dict.fromkeys(("wavtokenizer-dec", "qwen3tts", "pockettts"), "makes sound, not text"),
    **dict.fromkeys(("eagle3", "dflash", "gemma4-assistant"), "only helps another model to write faster"),
    "t5": "is an encoder with a decoder, which is not served here",
}
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})")
_CHOOSE = "Choose a model that writes text: reef models"


def read_model(path: Path) -> GGUFHeader:
    """Read the header of a file that is to serve.

    Raises:
        DataError: it is no whole GGUF file, or one that cannot write text by itself.
    """
    part = _PART.fullmatch(path.stem)
    header = read_header(path)
    parts = header.integer("split.count")
    if parts > 1 or (part is not None and int(part[3]) > 1):
        whole = f"{part[1]}.gguf" if part is not None else "whole.gguf"
        count = parts if parts > 1 or part is None else int(part[3])
        hint = f"Join them: llama-gguf-split --merge {path.name} {whole}; then serve {whole}."
        raise DataError(f"{path.name} is one of {count} parts of a model.", hint)
    _check_kind(path, header)
    if not any(tensor.name.startswith("blk.") for tensor in header.tensors):
        raise DataError(f"{path.name} holds no weights of a model, only its vocabulary or a part.", "Download the whole model.")
    if header.text("tokenizer.ggml.model") in ("", "no_vocab", "none"):
        raise DataError(f"{path.name} has no tokeniser, so it cannot read text.", "Convert it again, with its vocabulary.")
    return header


def _check_kind(path: Path, header: GGUFHeader) -> None:
    kind, architecture = header.text("general.type", "model"), header.architecture
    if kind == "adapter":
        raise DataError(f"{path.name} is a LoRA, not a model.", _CHOOSE)
    if kind == "mmproj" or architecture == "clip":
        raise DataError(f"{path.name} reads pictures for another model, and cannot write.", "Serve the model that it belongs to.")
    if kind == "imatrix" or architecture == "imatrix":
        raise DataError(f"{path.name} holds statistics for quantising, not a model.", _CHOOSE)
    if architecture in _OTHERS:
        raise DataError(f"{path.name} ({architecture}) {_OTHERS[architecture]}.", _CHOOSE)
    if architecture in _ENCODERS or header.metadata.get(f"{architecture}.attention.causal") is False:
        raise DataError(f"{path.name} ({architecture}) makes embeddings only: it cannot write replies.", _CHOOSE)


@dataclass(frozen=True, slots=True)
class StoredModel:
    """One model on this machine."""

    name: str  # what `engine.model` and `reef models use` take
    id: str  # what clients send
    path: Path
    size_bytes: int = 0
    architecture: str = ""
    quantisation: str = ""
    parameters: int = 0
    window_tokens: int = 0  # of the model; what is served may be less
    has_template: bool = False
    trains: bool = False  # its architecture; `reef doctor` says whether the memory is there
    problem: str = ""  # why it cannot serve


def stored_models(home: Home) -> list[StoredModel]:
    """The embedded model and those in the home, by name. Reads every header."""
    found: list[StoredModel] = []
    with contextlib.suppress(NotFound):  # not installed: it is no choice then
        found.append(describe(EMBEDDED, embedded_model()))
    files = sorted(home.models.glob("*.gguf")) if home.models.is_dir() else []
    return found + [describe(path.name, path) for path in files]


def canonical(path: Path, home: Home) -> str:
    """The name by which the settings know a model's file: one of `reef models`, else its path."""
    for stored in sorted(home.models.glob("*.gguf")) if home.models.is_dir() else ():
        if stored.resolve() == path.resolve():
            return stored.name
    return EMBEDDED if path.name == embedded_file() and path.resolve() == embedded_model().resolve() else str(path)


def describe(name: str, path: Path) -> StoredModel:
    """What the file says of itself; one that cannot serve says why."""
    identifier = model_id(name, path)
    try:
        header = read_model(path)
    except ReefError as error:
        return StoredModel(name, identifier, path, path.stat().st_size if path.exists() else 0, problem=error.message)
    return StoredModel(
        name,
        identifier,
        path,
        header.size_bytes,
        header.architecture,
        header.quantisation,
        header.parameters,
        header.context_length,
        header.chat_template is not None,
        header.architecture in TRAINABLE_ARCHITECTURES,
    )


def model_view(model: StoredModel) -> JSONObject:
    """As JSON; what is not known is null."""
    return {
        "name": model.name,
        "id": model.id,
        "path": str(model.path),
        "size_bytes": model.size_bytes,
        "architecture": model.architecture or None,
        "quantisation": model.quantisation or None,
        "parameters": model.parameters or None,
        "window_tokens": model.window_tokens or None,
        "has_template": model.has_template,
        "trains": model.trains,
        "problem": model.problem or None,
    }
