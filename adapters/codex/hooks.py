"""codex's `hooks.json`: the hooks of the harness (`extensions/hooks.json` of the tree, in codex's own form), with Reef's before them.

codex runs a hook only when its user has looked at it: it keeps the hash of each one that they trust in `config.toml`. Those of a release
have had a person's yes before they were in it, and Reef's come with the installation, so both are noted there as trusted. One that
somebody changes has another hash, and codex asks.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from adapters.shared.objects import as_object, read_object, write_object
from daemon.records import JSON, JSONObject

HOOKS_FILE: Final = "hooks.json"
TREE_HOOKS: Final = "extensions/hooks.json"
SCRIPT_FILE: Final = "reef-hook.sh"
"""Decides in the shell whether there is something to do, since codex waits for it at every message; Python starts only then."""

_EVENTS: Final = ("SessionStart", "UserPromptSubmit")
_TIMEOUT_S: Final = 150  # an update may have to fetch another version
_DEFAULT_TIMEOUT_S: Final = 600  # codex's own
_WITHOUT_MATCHER: Final = frozenset({"UserPromptSubmit", "Stop"})
_SCRIPT: Final = """\
# Tells codex what Reef has to say. Written by `reef install codex`; `reef uninstall codex` removes it.
told=$(cat)
case $told in
*'"hook_event_name":"UserPromptSubmit"'*)
    case $told in
    *\\$reef-*) ;;
    *) exit 0 ;;
    esac
    ;;
esac
printf '%s' "$told" | {command}
"""
_NOTICE: Final = """\
case ${{1-}} in
exec | e) {command} --notice >&2 </dev/null || : ;;
esac
"""


def hooks_text(tree_hooks: str | None, agent: Path) -> str:
    """`hooks.json` with the tree's hooks behind Reef's own. Raises DataError: the tree's are no JSON object."""
    wanted = read_object("codex", TREE_HOOKS, tree_hooks)
    events = as_object(wanted.get("hooks"))
    handler: JSONObject = {"type": "command", "command": f"sh {shlex.quote(str(agent / SCRIPT_FILE))}", "timeout": _TIMEOUT_S}
    own: JSONObject = {event: [{"hooks": [handler]}, *_groups(events.get(event))] for event in _EVENTS}
    return write_object({**wanted, "hooks": {**own, **{event: groups for event, groups in events.items() if event not in own}}})


def script_text(agent: Path, binding_file: str) -> str:
    return _SCRIPT.format(command=_command(agent, binding_file))


def notice_script(agent: Path, binding_file: str) -> str:
    """For the launcher: `codex exec` runs hooks, but does not show what they say."""
    return _NOTICE.format(command=_command(agent, binding_file))


def _command(agent: Path, binding_file: str) -> str:
    return shlex.join([sys.executable, "-P", "-m", "adapters.codex.hook", str(agent / binding_file)])


def hooks_back(was: str | None, now: str | None) -> str | None:
    """The tree's `extensions/hooks.json`, from what `hooks.json` says now."""
    if now is None:
        return None
    there = read_object("codex", HOOKS_FILE, now)
    events = {event: [group for group in _groups(groups) if not _is_own(group)] for event, groups in as_object(there.get("hooks")).items()}
    rest: JSONObject = {**there, "hooks": {event: groups for event, groups in events.items() if groups}}
    if was is not None:
        wanted = read_object("codex", TREE_HOOKS, was)
        full = {event: groups for event, groups in as_object(wanted.get("hooks")).items() if groups}
        if rest == {**wanted, "hooks": full}:
            return was
    return write_object(rest) if rest != {"hooks": {}} else None


def trusted(hooks: str, agent: Path) -> dict[str, str]:
    """codex's name of each hook in the text `hooks` → the hash by which it knows it again."""
    found: dict[str, str] = {}
    for event, groups in as_object(read_object("codex", HOOKS_FILE, hooks).get("hooks")).items():
        label = re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
        for number, group in enumerate(_groups(groups)):
            handlers = as_object(group).get("hooks")
            for place, handler in enumerate(handlers if isinstance(handlers, list) else []):
                digest = _hash(event, label, as_object(group), as_object(handler))
                if digest is not None:
                    found[f"{agent / HOOKS_FILE}:{label}:{number}:{place}"] = digest
    return found


def _hash(event: str, label: str, group: Mapping[str, JSON], handler: Mapping[str, JSON]) -> str | None:
    """As codex computes it, over what it makes of a hook; None: what it does not run."""
    timeout, command = handler.get("timeout", _DEFAULT_TIMEOUT_S), handler.get("command")
    if handler.get("type") != "command" or not isinstance(command, str) or not isinstance(timeout, int):
        return None
    known: JSONObject = {"type": "command", "command": command, "timeout": max(1, timeout), "async": handler.get("async") is True}
    if isinstance(status := handler.get("statusMessage"), str):
        known["statusMessage"] = status
    identity: JSONObject = {"event_name": label, "hooks": [known]}
    if isinstance(matcher := group.get("matcher"), str) and event not in _WITHOUT_MATCHER:
        identity["matcher"] = matcher
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _groups(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _is_own(group: JSON) -> bool:
    handlers = as_object(group).get("hooks")
    return isinstance(handlers, list) and any(SCRIPT_FILE in str(as_object(handler).get("command", "")) for handler in handlers)
