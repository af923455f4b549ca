"""Light or dark: what a person chose last, else what the terminal says of itself, else dark."""

from __future__ import annotations

import json
import os
from pathlib import Path

from daemon.paths import Home
from reef_cli.tui.themes import DARK, LIGHT

_LIGHT_BACKGROUNDS = ("7", "15")


def chosen_theme(home: Home) -> str:
    """The theme to begin with."""
    try:
        kept = json.loads(_file(home).read_text(encoding="utf-8"))["theme"]
    except (OSError, ValueError, KeyError, TypeError):
        kept = None
    if kept in (DARK, LIGHT):
        return str(kept)
    # Some terminals set this, as "foreground;background" in the sixteen colours.
    return LIGHT if os.environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_BACKGROUNDS else DARK


def keep_theme(home: Home, theme: str) -> None:
    """Remember the choice, where the home is there and can be written: it is a convenience, and no reason to complain."""
    try:
        if home.root.is_dir():
            _file(home).write_text(json.dumps({"theme": theme}) + "\n", encoding="utf-8")
    except OSError:
        return


def _file(home: Home) -> Path:
    return home.root / "app.json"
