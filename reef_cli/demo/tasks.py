"""The workload as task files: what the gate will hold a candidate against."""

from __future__ import annotations

from pathlib import Path

import yaml

from reef_cli.demo.workload import Workload

REPLY_TOKENS = 48
"""More than any commit subject needs, and enough to see that a reply is prose."""


def write_tasks(folder: Path, workload: Workload) -> Path:
    """Write one file of tasks, each with its split, so that none moves by its hash."""
    splits = (("held-in", workload.held_in), ("held-out", workload.held_out), ("sealed", workload.sealed))
    tasks = [
        {
            "id": f"{split}-{number:02d}",
            "split": split,
            "prompt": prompt,
            "check": {"pattern": workload.pattern},
            "max_tokens": REPLY_TOKENS,
        }
        for split, prompts in splits
        for number, prompt in enumerate(prompts, 1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump(tasks, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")
    return path
