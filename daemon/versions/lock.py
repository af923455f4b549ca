"""One writer at a time on the repository, among threads and processes."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daemon.errors import Busy

_WAIT_S = 30.0
_POLL_S = 0.02


class WriteLock:
    """An flock on `path`, re-entrant within a thread; the kernel frees it when its process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread_lock = threading.RLock()
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises Busy when another process keeps it for half a minute."""
        with self._thread_lock:
            if self._depth:
                yield
                return
            with self._path.open("a") as stream:
                deadline = time.monotonic() + _WAIT_S
                while not _try_lock(stream.fileno()):
                    if time.monotonic() > deadline:
                        raise Busy(f"Another process keeps {self._path} locked for {_WAIT_S:.0f} s.", "Try again when it is done.")
                    time.sleep(_POLL_S)
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
