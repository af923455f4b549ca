"""A GGUF file is read within bounds, and whatever is wrong with one is said in a sentence."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from daemon.engine.llama.lora_file import check_lora_file
from daemon.errors import DataError, ReefError
from daemon.gguf import TENSOR_TYPES, read_header
from tests.engine.random_lora import write_random_lora


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Tiny")
    writer.add_context_length(2048)
    writer.add_chat_template("{{ messages[0].content }}")
    writer.add_token_list([f"word{index}" for index in range(200)])
    writer.add_array("tiny.list", [1, 2, 3])
    writer.add_tensor("blk.0.attn_q.weight", np.zeros((8, 64), np.float32))
    writer.add_tensor("blk.0.ffn_down.weight", np.zeros((32, 16), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_header_is_read(model: Path) -> None:
    header = read_header(model)
    assert (header.architecture, header.name, header.context_length) == ("llama", "Tiny", 2048)
    assert header.chat_template == "{{ messages[0].content }}"
    assert (header.tensor_count, header.parameters) == (2, 8 * 64 + 32 * 16)
    assert header.quantisation in ("F32", "F16")
    assert header.metadata["tiny.list"] == (1, 2, 3)
    assert "tokenizer.ggml.tokens" not in header.metadata  # long lists are skipped
    assert header.tensors[0].shape == (64, 8)


def test_the_table_of_types_is_that_of_the_gguf_package() -> None:
    known = {kind.value for kind in gguf.GGMLQuantizationType}
    for number, (name, block, size_bytes) in TENSOR_TYPES.items():
        if number not in known:
            continue  # llama.cpp has it already
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)] == (block, size_bytes)
        assert gguf.GGMLQuantizationType(number).name == name


@pytest.mark.parametrize("keep", [0, 3, 20, 100, 0.5, 0.99])
def test_a_file_cut_short_is_refused(model: Path, keep: float) -> None:
    data = model.read_bytes()
    model.write_bytes(data[: int(keep if keep >= 1 else keep * len(data))])
    with pytest.raises(DataError, match=r"tiny\.gguf"):
        read_header(model)


@pytest.mark.parametrize(("at", "form", "value"), [(4, "<I", 99), (8, "<Q", 2**60), (16, "<Q", 2**60), (24, "<Q", 2**40)])
def test_absurd_counts_are_refused_at_once(model: Path, at: int, form: str, value: int) -> None:
    data = bytearray(model.read_bytes())
    struct.pack_into(form, data, at, value)
    model.write_bytes(data)
    with pytest.raises(DataError):
        read_header(model)


def test_random_damage_never_raises_anything_else(model: Path) -> None:
    data, chance = model.read_bytes(), random.Random(1)
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(3):
            broken[chance.randrange(min(len(broken), 700))] = chance.randrange(256)
        model.write_bytes(broken)
        try:
            read_header(model)
        except ReefError as error:
            assert error.message


def test_other_files_are_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_header(tmp_path / "missing.gguf")
    assert caught.value.hint
    with pytest.raises(DataError):
        read_header(tmp_path)


def test_loras_that_do_not_fit_are_refused(model: Path, tmp_path: Path) -> None:
    base, path = read_header(model), tmp_path / "lora.gguf"
    assert check_lora_file(write_random_lora(path, base).path, base).tensor_count == 4
    for problem, words in (
        ({"poison": float("inf")}, "finite"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"architecture": "qwen2"}, "qwen2"),
        ({"rank_of_b": 3}, "shape"),
        ({"dtype": np.float64}, "F64"),
    ):
        with pytest.raises(DataError, match=words):
            check_lora_file(write_random_lora(path, base, **problem).path, base)
    with pytest.raises(DataError, match="no LoRA"):
        check_lora_file(model, base)
