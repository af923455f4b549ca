"""The keys that the footer, the help screen and the command palette name."""

from __future__ import annotations

from dataclasses import dataclass

from textual.dom import DOMNode
from textual.screen import Screen

from reef_cli.tui.help import Key

_OURS = "reef_cli."
_TEXTUALS = frozenset({"ctrl+q", "ctrl+p"})
"""Its own keys, of which ours has another, or which the help screen names."""


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key, the action that it runs, and the node that the action belongs to."""

    key: Key
    action: str
    node: DOMNode


def named_keys(screen: Screen[object]) -> list[NamedKey]:
    """Those that work on `screen` now, have a description, and are shown in the footer or explained by a tooltip; each action once."""
    found: dict[tuple[DOMNode, str], NamedKey] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        named = binding.description and binding.key not in _TEXTUALS and (binding.show or binding.tooltip)
        if active.enabled and named and type(active.node).__module__.startswith(_OURS):
            key = Key(screen.app.get_key_display(binding), binding.description, binding.tooltip)
            found.setdefault((active.node, binding.action), NamedKey(key, binding.action, active.node))
    return list(found.values())
