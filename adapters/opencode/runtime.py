"""Which opencode."""

from __future__ import annotations

from typing import Final

from daemon.harness.runtime import Package

OPENCODE: Final = Package(
    name="opencode-ai",
    command="opencode",
    version="1.18.33",
    at_least=(1, 18, 33),
    below=(2, 0, 0),
    natives="opencode-*/bin/opencode",
)
