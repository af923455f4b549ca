"""A LoRA that lies about itself is refused before anything loads it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from daemon.errors import DataError
from daemon.lora_files import check_lora_folder, layer_norms
from tests.versions import real_lora


@dataclass(frozen=True)
class Base:
    architecture: str = "llama"


def test_a_sound_lora_says_what_it_is(tmp_path: Path) -> None:
    facts = check_lora_folder(real_lora.write(tmp_path / "lora"), Base())
    assert (facts.rank, facts.alpha, facts.tensors) == (4, 8.0, 16)
    assert facts.modules == ("down_proj", "k_proj", "o_proj", "q_proj")
    assert facts.size_bytes == sum(path.stat().st_size for path in (tmp_path / "lora").iterdir())


def test_norms_are_those_of_the_full_matrices(tmp_path: Path) -> None:
    values = real_lora.tensors()
    norms = layer_norms(real_lora.write(tmp_path / "lora", values) / "adapter_model.safetensors", real_lora.ALPHA, real_lora.RANK)
    name = "base_model.model.model.layers.1.mlp.down_proj"
    full = real_lora.ALPHA / real_lora.RANK * values[f"{name}.lora_B.weight"] @ values[f"{name}.lora_A.weight"]
    assert norms["model.layers.1.mlp.down_proj"] == pytest.approx(float(np.linalg.norm(full)), rel=1e-5)
    assert len(norms) == 8


def _config(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def _tensors(change: Callable[[dict[str, np.ndarray]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        values: dict[str, np.ndarray] = dict(real_lora.tensors())
        change(values)
        save_file(values, folder / "adapter_model.safetensors")

    return apply


def _raw(header: object, data: bytes = b"") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        text = json.dumps(header).encode()
        (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)

    return write


_NAME = "base_model.model.model.layers.0.mlp.down_proj"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "lora.gguf").unlink(), r"no file lora\.gguf"),
        (lambda folder: (folder / "adapter_model.safetensors").write_bytes(b"\x80\x04pickle"), "no safetensors file"),
        (lambda folder: (folder / "adapter_model.safetensors").write_bytes(b"\xff" * 100), "no safetensors file"),
        (lambda folder: (folder / "lora.gguf").write_bytes(b"GGUF"), "GGUF"),
        (_config(r=8), "does not fit rank 8"),
        (_config(r=True), "the rank r is True"),
        (_config(lora_alpha=-1), "lora_alpha is -1"),
        (_config(lora_alpha=16), r"lora\.gguf says alpha 8"),
        (_config(modules_to_save=["lm_head"]), "modules_to_save is not supported"),
        (_tensors(lambda values: values.pop(f"{_NAME}.lora_A.weight")), "only one half"),
        (_tensors(lambda values: values.update({"lm_head.lora_A.weight": np.zeros((4, 8), np.float32)})), "changes lm_head"),
        (_tensors(lambda values: values.update({"model.embed_tokens.lora_A.weight": np.zeros((4, 8), np.float32)})), "embed_tokens"),
        (_tensors(lambda values: values.update({"extra": np.zeros(3, np.float32)})), "no half of a LoRA"),
        (_tensors(lambda values: values.update({f"{_NAME}.lora_A.weight": np.full((4, 8), np.nan, np.float32)})), "not finite"),
        (_tensors(lambda values: values.update({f"{_NAME}.lora_A.weight": np.zeros((4, 8), np.int32)})), "type I32"),
        (_tensors(lambda values: [values.pop(name) for name in list(values) if ".layers.1." in name]), "has 16 tensors"),
        (_raw([]), "no object"),
        (_raw({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234"), "makes no sense"),
        (_raw({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"12345678"), "leave a gap"),
        (_raw({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"12345"), "belong to no tensor"),
    ],
)
def test_a_lora_that_lies_is_refused(tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    folder = real_lora.write(tmp_path / "lora")
    damage(folder)
    with pytest.raises(DataError, match=message):
        check_lora_folder(folder, Base())


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="for the architecture 'llama'; the base model is 'qwen2'"):
        check_lora_folder(real_lora.write(tmp_path / "lora"), Base("qwen2"))
