"""Why a conversation is read again that an earlier worker, or another model's, has had: the worker that reads it cannot know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from daemon.engine.base import CacheStats, Finished, GenerateRequest

_SESSIONS = 256
_WORTH_TELLING = 64  # tokens read again


class EarlierWorkers:
    """Which worker each session was with last."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], int] = {}  # → number of the worker, the most recent last
        self._misses: Counter[str] = Counter()
        self._other: EarlierWorkers | None = None  # of another model; what it has under way still ends there

    def take_over(self, before: EarlierWorkers) -> None:
        """Of an engine that another model had: its template and its tokens were others."""
        self._other, before._other = before, None

    def explained(self, request: GenerateRequest, finished: Finished, worker: int) -> Finished:
        """The end of a reply with the reason, if there is none yet."""
        if not request.session:
            return finished
        key = (request.scenario, request.session)
        last = self._sessions.pop(key, None)
        self._sessions[key] = worker
        if len(self._sessions) > _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        reason = ""
        if last is None:
            reason = "template changed" if self._other is not None and key in self._other._sessions else ""
        elif last != worker:
            reason = "evicted"
        read = finished.usage.prompt_tokens - finished.usage.cached_tokens
        if not reason or finished.cache_miss or read < _WORTH_TELLING:
            return finished
        self._misses[reason] += 1
        return replace(finished, cache_miss=reason)

    def added(self, cache: CacheStats) -> CacheStats:
        """`cache` with what was explained here."""
        if not self._misses:
            return cache
        counted: Mapping[str, int] = Counter(cache.misses) + self._misses
        return replace(cache, misses=dict(counted))
