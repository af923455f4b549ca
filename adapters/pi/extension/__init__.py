"""Reef's extension inside pi: the TypeScript files of this folder, which pi runs as they are, and what they need to know of Reef.

They read `reef.json` in pi's own folder; `binding` gives what they look for there beside address, scenario, token and release.
"""

from __future__ import annotations

import sys
from typing import Final

from daemon.harness.adapter import InstallContext
from daemon.records import JSONObject

SKIPPED: Final = "reef-skipped.json"
"""Which release the user wants to hear no more of, in pi's own folder; the extension writes it."""


def binding(context: InstallContext) -> JSONObject:
    """Which model pi is set up for, and how `/reef-update` reaches Reef's command line."""
    return {
        "model_id": context.model_id,
        "context_tokens": context.context_tokens,
        "command": [sys.executable, "-P", "-m", "reef_cli.main"],
        "home": str(context.home.parent.parent),  # `agents/pi` lies in it
    }
