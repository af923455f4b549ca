"""How much of the served context window codex may fill before it compacts a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from daemon.harness.window import too_small

SMALLEST_CONTEXT_TOKENS: Final = 8192
"""Instructions, tools and the folder's facts take about 2,400 tokens at the start; below this too little fits beside them."""

_LARGEST_OUTPUT_TOKENS: Final = 10_000  # codex's own default


@dataclass(frozen=True, slots=True)
class Window:
    """All sizes in tokens."""

    context: int
    compact_at: int  # a conversation that is longer is summed up before it goes on
    tool_output: int  # what a conversation keeps of one command's output


def fit_window(context_tokens: int, max_tokens: int) -> Window:
    """Sizes for a served window of `context_tokens`, with replies of at most `max_tokens`.

    The last output and a whole reply must fit above `compact_at`: codex looks at the length only between two requests.

    Raises:
        Unsupported: the window is too small for a coding agent.
    """
    if context_tokens < SMALLEST_CONTEXT_TOKENS:
        raise too_small("codex", SMALLEST_CONTEXT_TOKENS, context_tokens)
    reply = max(1, min(max_tokens, context_tokens // 4))
    tool_output = min(_LARGEST_OUTPUT_TOKENS, context_tokens // 16)
    return Window(context=context_tokens, compact_at=context_tokens - reply - tool_output, tool_output=tool_output)
