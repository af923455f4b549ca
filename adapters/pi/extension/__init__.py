"""Reef's extension inside pi: the TypeScript files of this folder and of `adapters.shared`, which pi runs as they are."""

from __future__ import annotations

from typing import Final

from adapters.shared import script_files

FOLDER: Final = "extensions/reef/"
"""Below pi's own folder; no entry of the tree belongs there."""


def extension_files() -> dict[str, str]:
    """Path below pi's own folder → text."""
    return script_files(__name__, FOLDER)
