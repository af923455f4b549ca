"""Reef's extension inside pi: the TypeScript files of this folder, which pi runs as they are, and what they need to know of Reef.

They read `reef.json` in pi's own folder; `binding` gives what they look for there beside address, scenario, token and release.
"""

from __future__ import annotations

import sys
from importlib import resources
from typing import Final

from daemon.harness.adapter import InstallContext
from daemon.records import JSONObject

FOLDER: Final = "extensions/reef/"
"""Below pi's own folder; no entry of the tree belongs there."""


def extension_files() -> dict[str, str]:
    """Path below pi's own folder → text."""
    here = resources.files(__name__)
    return {f"{FOLDER}{one.name}": one.read_text(encoding="utf-8") for one in here.iterdir() if one.name.endswith(".ts")}


def binding(context: InstallContext) -> JSONObject:
    """Which model pi is set up for, and how `/reef-update` reaches Reef's command line."""
    return {
        "model_id": context.model_id,
        "context_tokens": context.context_tokens,
        "command": [sys.executable, "-P", "-m", "reef_cli.main"],
        "home": str(context.home.parent.parent),  # `agents/pi` lies in it
    }
