"""What the fault tests start from: a home with a LoRA release, a recipe that is quick, and the promise to check after a crash."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from daemon.harness.hints import with_hints
from daemon.serving_hints import ServingHints
from daemon.training.lora_gguf import BaseShape, write_lora_gguf
from daemon.versions.manifest import Operation, RecipeFacts
from daemon.versions.release import Draft
from daemon.versions.repository import Repository
from tests.e2e.reef_home import ReefHome

SMOLLM2 = BaseShape(architecture="llama", layers=30, heads=9, key_value_heads=3)
_RANK, _WIDTH = 2, 576

RECIPES = '''
"""Recipes that need no training: they publish quickly, hang, or raise."""
import time
from typing import ClassVar

from daemon.evolution.candidate import Candidate
from daemon.evolution.gate import Decision, Evidence, Gate, Verdict
from daemon.evolution.recipe import Batch, Recipe, Target
from daemon.serving_hints import ServingHints


class Willing(Gate):
    name: ClassVar[str] = "willing"

    def decide(self, evidence: Evidence) -> Decision:
        return Decision(Verdict.PROMOTED, "promoted, to see publishing survive a crash")


class Quick(Recipe):
    name = "quick"
    target = Target.HARNESS

    def select(self, stream):
        turns = tuple(stream.all())
        return Batch(turns=turns, new=len(turns)) if turns else None

    def propose(self, batch, context):
        number = context.seed % 1_000_000
        hints = ServingHints(system_prefix=f"You are helper {number}.")
        return Candidate(change=f"+1 prefix ({number})", hints=hints, records=batch.records[-1:])

    def gate(self):
        return Willing()


class Slow(Quick):
    """Sleeps in `propose`, as a hanging teacher would."""
    name = "slow"

    def propose(self, batch, context):
        time.sleep(600)


class Blocks(Quick):
    """Holds the interpreter in one C call for longer than any heartbeat."""
    name = "blocks"

    def propose(self, batch, context):
        while True:
            (7 ** 77_777_77) % 97


class Raises(Quick):
    name = "raises"

    def propose(self, batch, context):
        raise ValueError("the recipe's own mistake")
'''


def quick_recipes(folder: Path, recipe: str, **settings: int) -> Path:
    """A folder of the user's with the recipes above, and a `serve.yaml` that names one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fault_recipes.py").write_text(RECIPES)
    serve = folder / "serve.yaml"
    lines = [f"  {name}: {value}" for name, value in {"batch_size": 1, **settings}.items()]
    serve.write_text("\n".join(["reef:", f"  recipe: fault_recipes:{recipe}", *lines, ""]))
    return serve


def lora_folder(folder: Path, seed: int) -> Path:
    """A small LoRA for the embedded model that changes its replies, in the three files of a release."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    prefix = "base_model.model.model.layers"
    tensors = {}
    for layer in range(0, 30, 3):
        stem = f"{prefix}.{layer}.self_attn.q_proj"
        tensors[f"{stem}.lora_A.weight"] = rng.normal(0, 0.05, (_RANK, _WIDTH)).astype(np.float32)
        tensors[f"{stem}.lora_B.weight"] = rng.normal(0, 0.05, (_WIDTH, _RANK)).astype(np.float32)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": _RANK, "lora_alpha": 2 * _RANK, "target_modules": ["q_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    write_lora_gguf(folder / "lora.gguf", tensors, SMOLLM2, alpha=2.0 * _RANK)
    return folder


def add_lora_release(reef: ReefHome, seed: int = 1) -> str:
    """With the daemon down: publish a release with a LoRA onto the default scenario's head."""
    repository = Repository(reef.home.versions)
    try:
        head = repository.head("default")
        if head is None:
            raise RuntimeError("start the daemon once before: it makes the first release")
        folder = lora_folder(reef.root.parent / f"lora-{seed}", seed)
        draft = Draft(
            "default", Operation.TRAINING, head.manifest.base, harness=head.tree, lora_folder=folder, change="LoRA of a test", who="test"
        )
        return repository.publish(draft, head.id).id
    finally:
        repository.close()
        shutil.rmtree(reef.root.parent / f"lora-{seed}", ignore_errors=True)


def hold_candidate(reef: ReefHome, recipe: str) -> str:
    """With the daemon down: hold a candidate with a system prefix, as a run of `recipe` leaves it that did not see enough evidence."""
    repository = Repository(reef.home.versions)
    try:
        head = repository.head("default")
        if head is None:
            raise RuntimeError("start the daemon once before: it makes the first release")
        harness = with_hints(head.tree, ServingHints(system_prefix="You are helper 1."))
        facts = RecipeFacts(name="quick", path=f"fault_recipes:{recipe}")
        drafted = Draft("default", Operation.TRAINING, head.manifest.base, harness, change="+1 prefix", recipe=facts, seed=1, who="test")
        return repository.hold(repository.prepare(drafted)).id
    finally:
        repository.close()


def check_promises(reef: ReefHome, receipts: list[str], allowed_heads: set[str]) -> str:
    """After a crash and a start: an allowed head serves, every receipt given out is there, and fsck is clean.

    Returns:
        The head.
    """
    head = reef.head()
    assert head in allowed_heads, f"{head} serves; it must be one of {allowed_heads}"
    assert reef.ask("Is anybody there?", max_tokens=4).release == head
    lost = [receipt for receipt in receipts if reef.request("GET", f"/reef/scenarios/default/records/{receipt}").status_code != 200]
    assert not lost, f"{len(lost)} of {len(receipts)} receipts are lost"
    checked = reef.fsck()
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return head
