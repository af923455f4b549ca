"""Which pi, and on which Node it runs."""

from __future__ import annotations

from daemon.harness.runtime import NODE_VERSION, Package

PI = Package(
    name="@earendil-works/pi-coding-agent",
    command="pi",
    version="1.6.0",
    at_least=(1, 6, 0),
    below=(2, 0, 0),
    node=(22, 19, 0),
)
PI_PACKAGE, PI_VERSION = PI.name, PI.version

__all__ = ["NODE_VERSION", "PI", "PI_PACKAGE", "PI_VERSION"]
