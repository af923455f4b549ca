"""Where the daemon's log goes: a bounded file in the home, and the terminal when it runs in the foreground."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler

from daemon.errors import StorageError
from daemon.paths import Home

_LIMIT_BYTES = 8 << 20
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def set_up(home: Home) -> None:
    """Log to `home.log`, and to stderr where a person watches. Raises `StorageError` when the file cannot be opened."""
    try:
        home.log.parent.mkdir(parents=True, exist_ok=True)
        handlers: list[logging.Handler] = [RotatingFileHandler(home.log, maxBytes=_LIMIT_BYTES, backupCount=2, encoding="utf-8")]
    except OSError as error:
        raise StorageError(f"Cannot write the log {home.log}: {error.strerror}.", "Mend the permissions of Reef's home.") from error
    if sys.stderr.isatty():
        handlers.append(logging.StreamHandler(sys.stderr))
    logging.basicConfig(level=logging.INFO, format=_FORMAT, handlers=handlers, force=True)
    for noisy in ("httpx", "httpcore", "watchfiles", "uvicorn.error", "dulwich"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
