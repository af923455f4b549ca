"""The child's side of `confined`: limits that the kernel holds it to."""

from __future__ import annotations

import contextlib
import resource
import signal

OUT_OF_MEMORY = 75
"""The exit code to leave with after a MemoryError: the heap is in pieces then."""

WALL_LIMIT_S = 30.0


def confine(memory_bytes: int) -> None:
    """Take so much address space at most; open no file and start no process from now on."""
    for kind, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # a system that does not know or allow it
            resource.setrlimit(kind, (limit, limit))


def limit_time(seconds: float) -> None:
    """Let the kernel end this process after so much computing, whatever it is doing then; 0: no longer.

    And after `WALL_LIMIT_S` in any case, should the machine be so busy that it does not come to its limit of computing.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WALL_LIMIT_S if seconds else 0)
