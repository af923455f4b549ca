"""How much of the served context window Claude Code may fill, and how long one reply, file or output may be.

Claude Code knows no window but those of its own maker's models; for another it goes by what it is told. It compacts a conversation when
less than a reply and 13,000 tokens are free, whatever the window. Its own prompt and tools take about 14,000 in a terminal and 12,500
without one; in the small form 11,000 and 9,500.
"""

from __future__ import annotations

from dataclasses import dataclass

from daemon.harness.window import too_small

SMALLEST_CONTEXT_TOKENS = 32_768
"""Below this nothing is left between Claude Code's own prompt and the point where it compacts."""

_ROOMY_CONTEXT_TOKENS = 65_536
_FILE_TOKENS, _OUTPUT_CHARACTERS = 25_000, 30_000  # Claude Code's own defaults


@dataclass(frozen=True, slots=True)
class Window:
    """Sizes in tokens, but for characters."""

    context: int
    reply: int  # the longest that it may ask for
    file: int  # the most of a file, or of a tool server's answer, that it reads at once
    output_characters: int  # the most that it reads of a shell command's output
    skills_characters: int  # of the list of skills; by default those that Claude Code brings take it up, and others are mere names in it
    small: bool  # leave out what a small window has no room for


def fit_window(context_tokens: int, max_tokens: int) -> Window:
    """Sizes for a served window of `context_tokens`, with replies of at most `max_tokens`.

    Raises:
        Unsupported: the window is too small for Claude Code.
    """
    if context_tokens < SMALLEST_CONTEXT_TOKENS:
        raise too_small("Claude Code", SMALLEST_CONTEXT_TOKENS, context_tokens, "or use pi: reef install pi")
    return Window(
        context=context_tokens,
        reply=max(1, min(max_tokens, context_tokens // 16)),
        file=min(_FILE_TOKENS, context_tokens // 8),
        output_characters=min(_OUTPUT_CHARACTERS, context_tokens // 4),
        skills_characters=context_tokens // 4,
        small=context_tokens < _ROOMY_CONTEXT_TOKENS,
    )
