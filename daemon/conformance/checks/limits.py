"""Long lists of tools, and what happens when a prompt does not fit."""

from __future__ import annotations

import re

from daemon.conformance.outcome import Failed, Refused, Skipped, Weak, shorten
from daemon.conformance.probe import Probe, user
from daemon.conformance.tools import many

_TOOLS = 25
"""As many as cline sends; opencode, codex and qwen-code send 9 to 14."""
_LONGEST_WORDS = 300_000
_BLIND_WORDS = 20_000  # where the window is not known
_OVERFLOW = re.compile(
    r"context.{0,20}(length|window|size|limit)|maximum context|too long|too many tokens|"
    r"exceeds? the .{0,30}(context|limit|maximum)|reduce the length",
    re.IGNORECASE,
)
_WINDOW = re.compile(r"(?:maximum context length is|context (?:size|length|window)[^\d]{0,30}) ?\(?(\d{3,8})", re.IGNORECASE)
_RATE = re.compile(r"rate.?limit|too many requests", re.IGNORECASE)


async def many_tools(probe: Probe) -> str:
    """Measures how quickly prompts are read, too."""
    try:
        answer = await probe.ask([user("Say hello.")], stream=True, max_tokens=1, tools=[*many(_TOOLS)])
    except Refused as error:
        if _OVERFLOW.search(error.text):
            raise Weak(f"{_TOOLS} tools do not fit: {shorten(error.text, 100)}") from error
        raise
    read = answer.prompt_tokens - answer.cached_tokens
    if read > 500 and probe.client.seconds > 0:
        probe.facts.read_tokens_per_s = read / probe.client.seconds
    return f"{_TOOLS} tools are read: {answer.prompt_tokens:,} tokens in {probe.client.seconds:.1f} s."


async def overflow(probe: Probe) -> str:
    """A prompt that cannot fit is refused with a text that agents know, and never cut in silence."""
    window = probe.facts.window_tokens
    words = window + window // 8 + 1000 if window else _BLIND_WORDS
    if words > _LONGEST_WORDS:
        raise Skipped(f"The window of {window:,} tokens is too large to overflow it here.")
    try:
        answer = await probe.look([user("one two three four " * (words // 4))], max_tokens=1)
    except Refused as error:
        return _judge(probe, error)
    except Failed as error:
        raise Failed(f"A prompt of {words:,} words was not refused. {error.sentence}") from error
    if answer.prompt_tokens >= words * 9 // 10:
        probe.facts.window_tokens = max(window, answer.prompt_tokens)
        raise Skipped(f"A prompt of {answer.prompt_tokens:,} tokens still fits; nothing larger was tried.")
    raise Failed(f"Of a prompt of {words:,} words the server read {answer.prompt_tokens:,} tokens: it cuts prompts in silence.")


def _judge(probe: Probe, error: Refused) -> str:
    text = f"{error.text} {error.code}"
    if error.status == 429 or _RATE.search(error.text):
        raise Failed(f"A prompt that does not fit is refused as if it were a rate limit, so agents send it again: {shorten(error.text)}")
    if error.status not in (400, 413, 422):
        raise Failed(f"A prompt that does not fit brings status {error.status}, so agents send it again: {shorten(error.text)}")
    if not (_OVERFLOW.search(text) or "context_length_exceeded" in text):
        raise Failed(f"A prompt that does not fit is refused with a text that agents do not know: {shorten(error.text)}")
    found = _WINDOW.search(error.text)
    if found and not probe.facts.window_tokens:
        probe.facts.window_tokens = int(found[1])
    return f"A prompt that does not fit is refused: {shorten(error.text, 110)}"
