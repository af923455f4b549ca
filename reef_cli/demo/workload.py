"""What the demo asks for: eight corrected exchanges, and prompts that nobody has corrected."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Correction:
    """A prompt, and the reply as the user would have had it."""

    prompt: str
    reply: str


@dataclass(frozen=True, slots=True)
class Workload:
    """`pattern` says what a reply of the wanted form looks like; held-out and sealed prompts are never learned from."""

    source: str  # one line for the reader: where these prompts come from
    corrections: tuple[Correction, ...]
    held_in: tuple[str, ...]
    held_out: tuple[str, ...]
    sealed: tuple[str, ...]
    pattern: str
    unrelated: tuple[str, ...]  # prompts of quite another kind, to see what learning does to the rest

    def has_form(self, reply: str) -> bool:
        return re.search(self.pattern, reply) is not None

    def form(self, replies: list[str]) -> float:
        """The share of replies that have the wanted form."""
        return sum(self.has_form(reply) for reply in replies) / len(replies)


def shipped_workload() -> Workload:
    """Commit messages for small changes, in the conventional form."""
    data = json.loads(files("reef_cli.demo").joinpath("workload.json").read_text(encoding="utf-8"))
    return Workload(
        source="commit messages in the conventional form, written for this demo",
        corrections=tuple(Correction(item["prompt"], item["reply"]) for item in data["corrections"]),
        held_in=tuple(item["prompt"] for item in data["held_in"]),
        held_out=tuple(item["prompt"] for item in data["held_out"]),
        sealed=tuple(item["prompt"] for item in data["sealed"]),
        pattern=data["pattern"],
        unrelated=tuple(item if isinstance(item, str) else item["prompt"] for item in data["unrelated"]),
    )
