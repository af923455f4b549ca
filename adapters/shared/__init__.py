"""Reef's extensions inside agents that run TypeScript: what they have in common, and what they are told.

The scripts of this folder and those of an agent are laid down side by side, in a folder two below the agent's own, and read `reef.json`
there.
"""

from __future__ import annotations

import sys
from importlib import resources
from typing import Final

from daemon.harness.adapter import InstallContext
from daemon.records import JSONObject

BINDING_FILE: Final = "reef.json"
"""What an extension is told, below the agent's own folder."""


def script_files(package: str, folder: str) -> dict[str, str]:
    """Path below the agent's own folder → text, of the scripts of `package` and of those that all agents share.

    Args:
        folder: ends with a slash.
    """
    found = (one for name in (__name__, package) for one in resources.files(name).iterdir())
    return {f"{folder}{one.name}": one.read_text(encoding="utf-8") for one in found if one.name.endswith((".ts", ".tsx"))}


def binding(context: InstallContext, agent: str) -> JSONObject:
    """Where Reef is, which release and model the agent is set up for, and how an update reaches Reef's command line. Never a token."""
    return {
        "agent": agent,
        "base_url": context.base_url,
        "token_path": str(context.client_token_path),
        "scenario": context.scenario,
        "release_id": context.release_id,
        "content_id": context.tree.content_id,
        "model_id": context.model_id,
        "context_tokens": context.context_tokens,
        "command": [sys.executable, "-P", "-m", "reef_cli.main"],
        "home": str(context.home.parent.parent),  # `agents/NAME` lies in it
    }
