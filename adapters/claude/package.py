"""Which Claude Code."""

from __future__ import annotations

from daemon.harness.runtime import Package

CLAUDE = Package(
    name="@anthropic-ai/claude-code",
    command="claude",
    version="2.1.332",
    at_least=(2, 1, 332),
    below=(3, 0, 0),
    natives="@anthropic-ai/claude-code-*/claude",
)
