"""A LoRA that was trained in torch must mean the same in llama.cpp: else the release that serves is not the one that was trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from daemon.errors import DataError
from daemon.training.base_model import add_lora, load_base
from daemon.training.lora_gguf import BaseShape, gguf_name, write_lora_gguf
from daemon.training.save import lora_tensors, save_lora
from tests.training.llama_logits import llama_logits
from tests.training.tiny import VOCABULARY, tiny_job, write_tiny_gguf

SHAPE = BaseShape("llama", layers=2, heads=4, key_value_heads=2)


def test_llama_cpp_and_torch_agree_under_the_lora(tmp_path: Path) -> None:
    job = tiny_job(write_tiny_gguf(tmp_path / "tiny.gguf"))
    base = load_base(job)
    model = add_lora(base, job.lora, seed=3)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    save_lora(tmp_path, model, base.shape, job)
    tokens = [1, *np.random.default_rng(1).integers(3, VOCABULARY, 40).tolist()]

    with torch.no_grad():
        expected = model(input_ids=torch.tensor([tokens])).logits[0].numpy()
    served = llama_logits(job.base, tokens, tmp_path / "lora.gguf")
    plain = llama_logits(job.base, tokens)

    assert np.abs(plain - served).max() > 3, "the LoRA must change something, or agreement shows nothing"
    # Both sides compute in float32 in another order. A wrong row order of q or k moves logits by more than 1.
    assert np.abs(expected - served).max() < 1e-3


def test_query_and_key_rows_are_interleaved_and_nothing_else_is(tmp_path: Path) -> None:
    rows = np.arange(32, dtype=np.float32)[:, None] * np.ones((1, 4), np.float32)
    tensors = {}
    for module in ("self_attn.q_proj", "self_attn.o_proj"):
        tensors[f"base_model.model.model.layers.0.{module}.lora_A.weight"] = np.zeros((4, 32), np.float32)
        tensors[f"base_model.model.model.layers.0.{module}.lora_B.weight"] = rows
    write_lora_gguf(tmp_path / "lora.gguf", tensors, SHAPE, alpha=8)

    import gguf

    read = {tensor.name: tensor.data for tensor in gguf.GGUFReader(tmp_path / "lora.gguf").tensors}
    assert read["blk.0.attn_q.weight.lora_b"][:8, 0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert read["blk.0.attn_output.weight.lora_b"][:8, 0].tolist() == list(range(8))


def test_half_a_pair_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    tensors = {"base_model.model.model.layers.0.mlp.up_proj.lora_A.weight": np.zeros((4, 32), np.float32)}
    with pytest.raises(DataError, match=r"lora_a but not .*lora_b"):
        write_lora_gguf(tmp_path / "lora.gguf", tensors, SHAPE, alpha=8)
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_gguf_does_not_know_is_named() -> None:
    with pytest.raises(DataError, match="gate_up"):
        gguf_name("base_model.model.model.layers.0.mlp.gate_up.lora_A.weight", SHAPE)


def test_an_architecture_that_is_not_tested_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not train"):
        write_lora_gguf(tmp_path / "lora.gguf", {}, BaseShape("mamba", 2, 4, 2), alpha=8)


def test_peft_reads_back_what_was_saved(tmp_path: Path) -> None:
    from peft import PeftConfig, PeftModel

    job = tiny_job(write_tiny_gguf(tmp_path / "tiny.gguf"))
    base = load_base(job)
    model = add_lora(base, job.lora, seed=3)
    save_lora(tmp_path, model, base.shape, job)
    before = lora_tensors(model)
    again = PeftModel.from_pretrained(load_base(job).model, str(tmp_path))
    after = lora_tensors(again)
    assert PeftConfig.from_pretrained(str(tmp_path)).peft_type == "LORA"
    assert before.keys() == after.keys() and all(np.array_equal(before[name], after[name]) for name in before)
    assert str(tmp_path) not in (tmp_path / "adapter_config.json").read_text(), "a release must not name this machine's folders"
