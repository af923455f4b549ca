"""Counters and histograms that cost a request next to nothing; `GET /metrics` reads them.

Each belongs to one thread, which adds; others read. A reader may see a sum that is one observation behind its count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

LATENCY_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
COMMIT_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
LAST_MISSES: Final = 20
BATCH: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Histogram:
    """Counts by upper bound, as Prometheus has them; the last count is of what lies above all bounds."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class CommitMeasures:
    """What the writer does: how long its commits take, and how many writes share one. Fed by its thread."""

    def __init__(self) -> None:
        self.seconds = Histogram(COMMIT_S)
        self.batch = Histogram(BATCH)
        self.failed = 0
        self.failing = ""  # why the last commit failed; empty where it did not

    def commit(self, seconds: float, jobs: int) -> None:
        """`seconds` from BEGIN to the end of COMMIT."""
        self.seconds.observe(seconds)
        self.batch.observe(jobs)
        self.failing = ""

    def refused(self, why: str) -> None:
        """Nothing of a commit was stored."""
        self.failed += 1
        self.failing = why


@dataclass(frozen=True, slots=True)
class CacheMiss:
    """A conversation that was read again although it went on."""

    at: float  # seconds since the epoch
    scenario: str
    session: str
    reason: str
    read_tokens: int


@dataclass(slots=True)
class RequestMeasures:
    """What is asked of the daemon. Fed by the event loop."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)  # by route and status
    seconds: dict[str, Histogram] = field(default_factory=dict)  # by route
    first_token: Histogram = field(default_factory=lambda: Histogram(LATENCY_S))  # seconds
    tokens: Counter[str] = field(default_factory=Counter)  # prompt, cached, completion
    records: Counter[str] = field(default_factory=Counter)  # by outcome: ok, aborted, error
    misses: deque[CacheMiss] = field(default_factory=lambda: deque(maxlen=LAST_MISSES))  # the newest last

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.requests[route, status] += 1
        histogram = self.seconds.get(route)
        if histogram is None:
            histogram = self.seconds[route] = Histogram(LATENCY_S)
        histogram.observe(seconds)
