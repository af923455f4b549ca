"""One stream held open across a swap: its reply must be that of the release that admitted it, token for token."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from daemon.errors import EngineError, ReefError
from reef_cli.demo.asker import Asker
from reef_cli.demo.loop import Loop

_PIECES_BEFORE_SWAP = 8
_STREAM_TOKENS = 400


@dataclass(frozen=True, slots=True)
class SwapOutcome:
    prompt: str
    admitted: str  # the release that the stream began with
    published: str  # the release that the rollback made
    other: str  # the release that answered a new session while the stream was open
    pieces_before: int
    pieces_after: int
    same_tokens: bool


def swap_under_a_stream(asker: Asker, loop: Loop, prompts: Sequence[str], first_release: str) -> SwapOutcome:
    """Open a stream, roll back to `first_release` while it runs, ask another question, then read it to its end."""
    prompt, alone = _longest(asker, prompts)
    stream = asker.open_stream(prompt, _STREAM_TOKENS)
    rollback = _Rollback(loop, asker, first_release, stream.release)
    before = after = 0
    for _ in stream.pieces():
        if rollback.done.is_set():
            after += 1
        else:
            before += 1
        if before + after == _PIECES_BEFORE_SWAP:
            rollback.start()
    rollback.finish()
    same = loop.completion_tokens(stream.receipt) == loop.completion_tokens(alone)
    return SwapOutcome(prompt, stream.release, rollback.published, rollback.other, before, after, same)


def _longest(asker: Asker, prompts: Sequence[str]) -> tuple[str, str]:
    """The prompt that is answered at most length, and the receipt of that answer: what the release says when it is alone."""
    replies = {prompt: asker.ask(prompt, max_tokens=_STREAM_TOKENS) for prompt in prompts}
    prompt = max(replies, key=lambda asked: len(replies[asked].text))
    return prompt, replies[prompt].receipt


class _Rollback(threading.Thread):
    """Rolls back, then asks a question in a new session, while another thread reads the stream."""

    def __init__(self, loop: Loop, asker: Asker, release: str, head: str) -> None:
        super().__init__(daemon=True)
        self._loop = loop
        self._asker = asker
        self._release = release
        self._head = head
        self._error: ReefError | None = None
        self.done = threading.Event()
        self.published = ""
        self.other = ""

    def run(self) -> None:
        try:
            self.published = self._loop.rollback(self._release, self._head)
            self.done.set()
            self.other = self._asker.ask("Say hello.", max_tokens=8).release
        except ReefError as error:
            self._error = error

    def finish(self) -> None:
        """Wait for the end; raises what went wrong."""
        if not self.is_alive() and not self.done.is_set() and self._error is None:
            raise EngineError("The stream ended before the rollback began.", "The model answered too briefly; run the demo again.")
        self.join(60)
        if self._error is not None:
            raise self._error
