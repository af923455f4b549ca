"""A file that cannot serve says why before it is loaded, and the list shows what there is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import pytest

from daemon.errors import DataError, NotFound
from daemon.gguf import read_header
from daemon.model_files import read_model, stored_models
from daemon.models import embedded_model, resolve_model
from daemon.paths import Home
from tests.engine.random_lora import write_random_lora


def write_model(
    path: Path,
    *,
    architecture: str = "llama",
    tokenizer: str = "gpt2",
    tensor: str = "blk.0.attn_q.weight",
    facts: Mapping[str, str | int | bool] | None = None,
) -> Path:
    """A file that looks like a model, as far as its header goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(2048)
    writer.add_tokenizer_model(tokenizer)
    for name, value in (facts or {}).items():
        if isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, bool):
            writer.add_bool(name, value)
        else:
            writer.add_uint16(name, value)
    writer.add_tensor(tensor, np.zeros((8, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_embedded_model_can_serve() -> None:
    assert read_model(embedded_model()).architecture == "llama"


@pytest.mark.parametrize(
    ("name", "how", "words"),
    [
        ("m.gguf", {"facts": {"split.count": 3}}, "one of 3 parts"),
        ("m-00002-of-00004.gguf", {}, "one of 4 parts"),
        ("m.gguf", {"architecture": "bert"}, "embeddings only"),
        ("m.gguf", {"facts": {"llama.attention.causal": False}}, "embeddings only"),
        ("m.gguf", {"architecture": "clip"}, "reads pictures"),
        ("m.gguf", {"facts": {"general.type": "mmproj"}}, "reads pictures"),
        ("m.gguf", {"architecture": "llada"}, "diffusion"),
        ("m.gguf", {"architecture": "t5"}, "encoder with a decoder"),
        ("m.gguf", {"tensor": "token_embd.weight"}, "no weights of a model"),
        ("m.gguf", {"tokenizer": "no_vocab"}, "no tokeniser"),
    ],
)
def test_what_cannot_write_text_is_refused_with_the_reason(tmp_path: Path, name: str, how: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_model(write_model(tmp_path / name, **how))  # type: ignore[arg-type]
    assert caught.value.hint


def test_a_lora_is_not_taken_for_a_model(tmp_path: Path) -> None:
    lora = write_random_lora(tmp_path / "lora.gguf", read_header(embedded_model()), rank=1, weights=("blk.0.attn_q.weight",))
    with pytest.raises(DataError, match="is a LoRA"):
        read_model(lora.path)


def test_the_list_has_the_embedded_model_those_of_the_home_and_what_is_wrong_with_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_model(home.models / "Good.gguf", architecture="phi3", facts={"tokenizer.chat_template": "{{ messages }}"})
    (home.models / "broken.gguf").write_bytes(b"GGUF")
    (home.models / "gone.gguf").symlink_to("nowhere.gguf")
    listed = {model.name: model for model in stored_models(home)}
    assert list(listed) == ["embedded", "Good.gguf", "broken.gguf", "gone.gguf"]
    assert listed["embedded"].trains and listed["embedded"].window_tokens == 8192 and not listed["embedded"].problem
    good = listed["Good.gguf"]
    assert (good.id, good.window_tokens, good.trains, good.has_template) == ("good", 2048, False, True)
    assert "usable GGUF" in listed["broken.gguf"].problem and listed["broken.gguf"].size_bytes == 4
    assert "cannot be read" in listed["gone.gguf"].problem
    assert all(resolve_model(name, home) == model.path for name, model in listed.items() if name != "gone.gguf")


def test_the_embedded_model_is_found_by_the_name_that_a_release_has_for_it(tmp_path: Path) -> None:
    assert resolve_model(embedded_model().name, Home(tmp_path)) == embedded_model()
    with pytest.raises(NotFound, match="no model other"):
        resolve_model("other.gguf", Home(tmp_path))
