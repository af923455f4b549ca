"""Why a continued conversation is read again: what each session had before, compared with what its next request reuses."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass

from daemon.engine.llama.cache.slots import common_prefix
from daemon.engine.llama.model import MIN_PIECE
from daemon.engine.llama.pace import WORTHWHILE
from daemon.engine.llama.sequence import Sequence

_SESSIONS = 128
_THREADS = 3  # conversations of one session, such as the main one and the asides for titles and summaries
_SMALL = 16  # tokens read again that nobody needs a reason for


@dataclass(frozen=True, slots=True)
class _Turn:
    lora_id: str | None
    template: str
    tokens: array[int]  # prompt and reply
    prompt_tokens: int


class Conversations:
    """The latest turn of each conversation, for a bounded number of sessions."""

    def __init__(self) -> None:
        self.misses: Counter[str] = Counter()
        self._sessions: dict[tuple[str, str], list[_Turn]] = {}  # the most recent last

    def begin(self, job: Sequence) -> None:
        """The job begins to be read: set its `cache_miss`, one of `CACHE_MISSES` or empty, and count it."""
        turns = self._sessions.get((job.scenario, job.session)) if job.session else None
        if turns:
            job.cache_miss = _reason(turns, job)
            if job.cache_miss:
                self.misses[job.cache_miss] += 1

    def end(self, job: Sequence) -> None:
        """Remember what the session has now."""
        if not job.session:
            return
        key = (job.scenario, job.session)
        tokens = array("i", job.prompt + job.completion)
        turns = self._sessions.pop(key, [])
        kept = [turn for turn in turns if common_prefix(turn.tokens, tokens) < turn.prompt_tokens - _SMALL]
        self._sessions[key] = [*kept, _Turn(job.lora_id, job.template, tokens, len(job.prompt))][-_THREADS:]
        if len(self._sessions) > _SESSIONS:
            del self._sessions[next(iter(self._sessions))]


def _reason(turns: list[_Turn], job: Sequence) -> str:
    prompt = array("i", job.prompt)
    shares = [common_prefix(turn.tokens, prompt) for turn in turns]
    common = max(shares)
    last = turns[shares.index(common)]
    lost = min(common, len(prompt) - MIN_PIECE) - job.cached
    if last.lora_id != job.lora_id and lost > _SMALL:
        return "LoRA changed"
    # A much shorter prompt is an aside, or a history that the client meant to shorten.
    if common < last.prompt_tokens - _SMALL and 2 * len(prompt) > last.prompt_tokens:
        return "history rewritten" if last.template == job.template else "template changed"
    return "evicted" if lost >= WORTHWHILE else ""
