"""What an agent says whose own prompt and tools do not fit into the served window."""

from __future__ import annotations

from daemon.errors import Unsupported


def too_small(title: str, least_tokens: int, served_tokens: int, else_do: str = "") -> Unsupported:
    """The error of an agent that needs a window of `least_tokens`. `else_do` is what else helps, as the end of the hint."""
    return Unsupported(
        f"{title} needs a context window of at least {least_tokens} tokens; the served model has {served_tokens}.",
        "Serve a model with a larger window, which `reef models` shows, or raise engine.context if this one's own is larger"
        f"{else_do and f', {else_do}'}.",
    )
