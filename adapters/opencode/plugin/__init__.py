"""Reef's plugins in opencode: the scripts of this folder and of `adapters.shared`, which opencode runs as they are.

opencode's server loads what lies in `plugins/` itself, and its terminal what `tui.json` names: a folder in `plugins/` is read by neither.
"""

from __future__ import annotations

from typing import Final

from adapters.shared import script_files

FOLDER: Final = "plugins/reef/"
ENTRY: Final = "plugins/reef.ts"
"""Both below opencode's own folder; no entry of the tree belongs there."""

TERMINAL: Final = "./plugins/reef/tui.tsx"
"""As `tui.json` names it."""

_ENTRY_TEXT = 'export { default } from "./reef/server.ts";\n'


def plugin_files() -> dict[str, str]:
    """Path below opencode's own folder → text."""
    return {**script_files(__name__, FOLDER), ENTRY: _ENTRY_TEXT}
