"""How much of the served context window pi may fill, reserve and keep.

pi compacts a conversation when less than `reserveTokens` of the window is free. Its default of 16,384 makes every
small window "full" from the first turn, so all three numbers follow the served model here.
"""

from __future__ import annotations

from dataclasses import dataclass

from daemon.harness.window import too_small

SMALLEST_CONTEXT_TOKENS = 4096
"""pi's own system prompt and tool list take about 1,500 tokens; below this nothing useful fits beside them."""

_LARGEST_KEEP_TOKENS = 20_000  # pi's own default


@dataclass(frozen=True, slots=True)
class Window:
    """All sizes in tokens."""

    context: int
    reply: int  # the longest reply pi may ask for
    reserve: int  # free room below which pi compacts; holds one whole reply
    keep_recent: int  # what a compaction leaves verbatim


def fit_window(context_tokens: int, max_tokens: int) -> Window:
    """Sizes for a served window of `context_tokens`, with replies of at most `max_tokens`.

    Raises:
        Unsupported: the window is too small for a coding agent.
    """
    if context_tokens < SMALLEST_CONTEXT_TOKENS:
        raise too_small("pi", SMALLEST_CONTEXT_TOKENS, context_tokens)
    reply = max(1, min(max_tokens, context_tokens // 4))
    reserve = reply + context_tokens // 16
    keep_recent = min(_LARGEST_KEEP_TOKENS, (context_tokens - reserve) // 3)
    return Window(context=context_tokens, reply=reply, reserve=reserve, keep_recent=keep_recent)
