"""The neutral harness tree: everything of an agent that is not weights, as plain text files.

Paths: `AGENTS.md` (rules), `skills/NAME/SKILL.md`, `prompts/NAME.md`, `commands/NAME.md`, `extensions/…`,
`settings.json`, and `serving.json` (the hints that the gateway applies for clients that install nothing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SERVING_HINTS_PATH = "serving.json"


@dataclass(frozen=True, slots=True)
class HarnessTree:
    """An immutable snapshot: relative POSIX path → text."""

    files: Mapping[str, str] = field(default_factory=dict)
