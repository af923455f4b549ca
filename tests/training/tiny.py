"""A random model of a few thousand weights, as a GGUF file that llama.cpp and transformers both load."""

from __future__ import annotations

import hashlib
from pathlib import Path

import gguf
import numpy as np

from daemon.training.job import LoRASettings, Sample, TrainingJob

VOCABULARY, WIDTH, LAYERS, HEADS, KEY_VALUE_HEADS, FEED_FORWARD = 64, 32, 2, 4, 2, 48


def write_tiny_gguf(path: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)

    def random(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * (0.6 / np.sqrt(shape[-1]))).astype(np.float32)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_VALUE_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _vocabulary(writer)
    writer.add_tensor("token_embd.weight", random(VOCABULARY, WIDTH))
    writer.add_tensor("output.weight", random(VOCABULARY, WIDTH) * 4)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        narrow = WIDTH * KEY_VALUE_HEADS // HEADS
        shapes = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (narrow, WIDTH),
            "attn_v": (narrow, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (FEED_FORWARD, WIDTH),
            "ffn_up": (FEED_FORWARD, WIDTH),
            "ffn_down": (WIDTH, FEED_FORWARD),
        }
        for name, shape in shapes.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", random(*shape) * 3)
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", np.ones(WIDTH, np.float32))
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _vocabulary(writer: gguf.GGUFWriter) -> None:
    tokens = ["<unk>", "<s>", "</s>"] + [chr(ord("!") + index) for index in range(VOCABULARY - 3)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (VOCABULARY - 3)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def tiny_job(base: Path, objective: str = "recipes.sft.objective:SFTObjective", steps: int = 4) -> TrainingJob:
    return TrainingJob(
        base=base,
        base_sha256=hashlib.sha256(base.read_bytes()).hexdigest(),
        objective=objective,
        lora=LoRASettings(rank=4, alpha=8),
        learning_rate=1e-2,
        steps=steps,
        batch_size=2,
        threads=1,
    )


SAMPLES = [
    Sample(prompt=(1, 5, 9), completion=(7, 8, 2)),
    Sample(prompt=(1, 6), completion=(7, 30, 31, 2), weight=0.5),
    Sample(prompt=(1, 6, 4, 4), completion=(7, 9, 2)),
    Sample(prompt=(1, 5, 9), completion=(7, 8, 2, 40, 41, 7, 8, 2), mask=(True,) * 3 + (False,) * 2 + (True,) * 3, kind="conversation"),
    Sample(prompt=(1, 20), completion=(21, 22, 23, 24), kind="replay"),
    Sample(prompt=(1, 30, 31), completion=(32, 33, 2), kind="replay"),
]
