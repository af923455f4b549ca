"""Small drafts for the tests of releases."""

from __future__ import annotations

import json
from pathlib import Path

from daemon.harness_tree import HarnessTree
from daemon.versions.manifest import BaseModelFacts, Operation
from daemon.versions.release import Draft

BASE = BaseModelFacts(model="smol", file="smol.gguf", sha256="a" * 64, quantisation="Q4_1", template_sha256="b" * 64)


def tree(**files: str) -> HarnessTree:
    """`rules="…"` is AGENTS.md; other names are skills."""
    return HarnessTree({"AGENTS.md" if name == "rules" else f"skills/{name}/SKILL.md": text for name, text in files.items()})


def lora_folder(folder: Path, content: str = "weights") -> Path:
    """Three files in the shape that a trainer leaves; the bytes are no real weights."""
    folder.mkdir(parents=True)
    (folder / "adapter_model.safetensors").write_bytes(b"safetensors " + content.encode() * 100)
    (folder / "adapter_config.json").write_text(json.dumps({"r": 16, "lora_alpha": 32, "target_modules": ["v_proj", "q_proj"]}))
    (folder / "lora.gguf").write_bytes(b"GGUF " + content.encode() * 200)
    return folder


def draft(harness: HarnessTree | None = None, lora: Path | None = None, **more: object) -> Draft:
    fields: dict[str, object] = {"scenario": "default", "operation": Operation.TRAINING, "base": BASE, "lora_folder": lora}
    fields["harness"] = harness or HarnessTree()
    return Draft(**(fields | more))  # type: ignore[arg-type]
