"""The notice of what is new, and the line below the prompt."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

from daemon.harness.asking import Told, Trouble, changes, is_new, notice, printable, text
from daemon.harness.typed import skipped

STATUS_FILE: Final = "reef-status"
"""Below Claude Code's own folder: what the line below the prompt says."""
_AGAIN_S: Final = 60
_HOW: Final = "/reef-update, /reef-diff, /reef-skip"


def look(told: Told, binding: Path, how: str = _HOW) -> str:
    """Ask what is new, briefly, and write the status line. Returns the notice; empty where there is nothing to say.

    Args:
        how: to take the update; empty: by Reef's own command.
    """
    here = f"Reef {told.release_id}".strip()
    try:
        found = changes(told)
    except Trouble as trouble:
        write_status(binding, here if trouble.status else "Reef is down")
        early = trouble.status == 404 and not told.release_id  # the scenario begins with its first request
        return "" if early else printable(str(trouble))
    head, left_out = text(found.get("head")), skipped(binding)
    if is_new(told, found):
        here = f"{here} ({head} skipped)" if head == left_out else f"{here} → {head} /reef-update"
    write_status(binding, printable(here))
    return notice(told, found, how, left_out)


def look_again(told: Told, binding: Path) -> str:
    """The same at the end of a run, once a minute at most, and only what was not told before."""
    status = binding.with_name(STATUS_FILE)
    with contextlib.suppress(OSError):
        if time.time() - status.stat().st_mtime < _AGAIN_S:
            return ""
    before = read_status(binding)
    said = look(told, binding)
    return said if read_status(binding) != before else ""


def read_status(binding: Path) -> str:
    try:
        return binding.with_name(STATUS_FILE).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def write_status(binding: Path, line: str) -> None:
    """Whole or not at all; a full disk costs the line, not the hook."""
    status = binding.with_name(STATUS_FILE)
    beside = status.with_name(f".{STATUS_FILE}.{os.getpid()}")
    with contextlib.suppress(OSError):
        beside.write_text(f"{line}\n", encoding="utf-8")
        os.replace(beside, status)
