"""The trainer on the embedded model: what it trains is what llama.cpp then serves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peft import PeftModel

from daemon.files import sha256_file
from daemon.models import embedded_model
from daemon.records import JSONObject
from daemon.training.base_model import load_base
from daemon.training.job import Sample, TrainingJob, write_job
from daemon.training.process import run_job
from tests.training.llama_logits import llama_logits, llama_tokens

pytestmark = pytest.mark.e2e

_PROMPT = "<|im_start|>user\nWrite a commit message for this change: {}<|im_end|>\n<|im_start|>assistant\n"
_PAIRS = [
    ("The clock showed the wrong time zone.", "fix(clock): show the local time zone"),
    ("Added a dark theme.", "feat(theme): add a dark theme"),
    ("Explained the settings in the manual.", "docs(manual): explain the settings"),
    ("Wrote tests for the parser.", "test(parser): cover the parser"),
]


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


@pytest.mark.timeout(600)
def test_the_lora_means_the_same_to_llama_cpp_as_to_torch(tmp_path: Path) -> None:
    """On the same token ids. The served weights are Q4_1, and llama.cpp rounds activations to eight bits beside them: so the base model
    itself is a little apart on the two sides, and the LoRA may not set them further apart than half as much again."""
    base_path = embedded_model()
    samples = [
        Sample(
            prompt=tuple(llama_tokens(base_path, _PROMPT.format(change))), completion=tuple(llama_tokens(base_path, reply + "<|im_end|>"))
        )
        for change, reply in _PAIRS
    ]
    job = TrainingJob(
        base=base_path,
        base_sha256=sha256_file(base_path),
        objective="recipes.sft.objective:SFTObjective",
        learning_rate=2e-3,
        steps=6,
        batch_size=4,
    )
    write_job(tmp_path, job, samples)
    steps: list[JSONObject] = []
    result = run_job(tmp_path, steps.append)
    first = steps[1]["cross_entropy"]
    assert isinstance(first, float) and result.metrics["cross_entropy"] < 0.7 * first

    tokens = list(samples[0].tokens) + llama_tokens(base_path, "\nThe harbour was quiet that morning, and the boats lay still.\n")
    base = load_base(job).model
    with torch.no_grad():
        torch_plain = _log_softmax(base(input_ids=torch.tensor([tokens])).logits[0].numpy())
        trained = PeftModel.from_pretrained(base, str(tmp_path))
        torch_trained = _log_softmax(trained(input_ids=torch.tensor([tokens])).logits[0].numpy())
    served_plain = _log_softmax(llama_logits(base_path, tokens))
    served_trained = _log_softmax(llama_logits(base_path, tokens, tmp_path / "lora.gguf"))

    following = (np.arange(len(tokens) - 1), np.array(tokens[1:]))
    apart_plain = float(np.abs(torch_plain[:-1][following] - served_plain[:-1][following]).mean())
    apart_trained = float(np.abs(torch_trained[:-1][following] - served_trained[:-1][following]).mean())
    moved = float(np.abs(served_trained[:-1][following] - served_plain[:-1][following]).mean())
    print(f"apart without LoRA {apart_plain:.3f}, with it {apart_trained:.3f} nats a token; the LoRA moved {moved:.3f}")
    assert moved > 5 * apart_trained, "the LoRA must matter more than rounding does"
    assert apart_trained < max(1.5 * apart_plain, 0.1)
