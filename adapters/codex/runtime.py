"""Which codex."""

from __future__ import annotations

from typing import Final

from daemon.harness.runtime import Package

CODEX: Final = Package(
    name="@openai/codex",
    command="codex",
    version="0.171.0",
    at_least=(0, 171, 0),
    below=(0, 172, 0),  # its settings and its list of models change with every version, and one that it cannot read stops it
    node=(16, 0, 0),
)
