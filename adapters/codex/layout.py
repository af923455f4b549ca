"""Where the parts of a harness tree lie in codex's folder, and back.

Rules and skills lie where the tree has them. Commands and prompts are skills that the user calls. `settings.json` is merged into
`config.toml`, `extensions/hooks.json` into `hooks.json`; what the hooks run lies in `extensions/`, as in the tree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from adapters.codex.commands import KINDS, RESERVED, command_files, commands_back, own_files, skill_of, taken
from adapters.codex.hooks import HOOKS_FILE, SCRIPT_FILE, TREE_HOOKS, hooks_back, hooks_text, script_text, trusted
from adapters.codex.settings import CONFIG_FILE, MODELS_FILE, config_text, models_text, names_back, settings_back, settings_names
from adapters.codex.window import fit_window
from adapters.shared import BINDING_FILE, binding
from adapters.shared.objects import read_object, write_object
from daemon.harness.adapter import InstallContext, Present, Rendering
from daemon.harness.npm_adapter import agent_folder
from daemon.harness_tree import RULES_PATH, SETTINGS_PATH, HarnessTree

READS: Final = (RULES_PATH, CONFIG_FILE, HOOKS_FILE, "skills/", "extensions/")
SHARED: Final = frozenset({CONFIG_FILE})
_SKILLS, _EXTENSIONS = "skills/", "extensions/"


def folder(context: InstallContext) -> Path:
    """codex's folder by the name that codex gives it: it follows links."""
    return Path(os.path.realpath(agent_folder(context)))


def render(context: InstallContext, present: Present) -> Rendering:
    window = fit_window(context.context_tokens, context.max_tokens)
    tree, agent = context.tree.files, folder(context)
    wanted = read_object("codex", SETTINGS_PATH, tree.get(SETTINGS_PATH))
    before = names_back(read_object("codex", BINDING_FILE, present(BINDING_FILE)).get("settings"))
    hooks = hooks_text(tree.get(TREE_HOOKS), agent)
    files = {
        path: text for path, text in tree.items() if path == RULES_PATH or (path.startswith((_SKILLS, _EXTENSIONS)) and path != TREE_HOOKS)
    }
    executable = frozenset(path for path, text in files.items() if path.startswith(_EXTENSIONS) and text.startswith("#!"))
    files |= command_files(context.tree)
    files |= own_files()
    files[BINDING_FILE] = write_object({**binding(context, "codex"), "settings": settings_names(wanted)})
    files[SCRIPT_FILE] = script_text(agent, BINDING_FILE)
    files[HOOKS_FILE] = hooks
    files[MODELS_FILE] = models_text(context.model_id, window)
    files[CONFIG_FILE] = config_text(present(CONFIG_FILE), wanted, before, trusted(hooks, agent), context, window, agent)
    notes = tuple(
        f"{path} has no place in codex: the name of a command must be a-z, 0-9 and hyphens."
        for path in sorted(tree)
        if path.startswith(KINDS) and skill_of(path) is None
    )
    return Rendering(files, executable, SHARED, notes)


def read_back(context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
    was = context.tree.files
    elsewhere = (_SKILLS, _EXTENSIONS, *KINDS)
    tree = {path: text for path, text in was.items() if path not in (RULES_PATH, SETTINGS_PATH) and not path.startswith(elsewhere)}
    tree |= commands_back(was, files)
    commands = taken(was)
    for path, text in files.items():
        if path == RULES_PATH or (path.startswith((_SKILLS, _EXTENSIONS)) and path not in commands and not path.startswith(RESERVED)):
            tree[path] = text
    hooks = hooks_back(was.get(TREE_HOOKS), files.get(HOOKS_FILE))
    settings = settings_back(was.get(SETTINGS_PATH), files.get(CONFIG_FILE))
    for path, back in ((TREE_HOOKS, hooks), (SETTINGS_PATH, settings)):
        if back is not None:
            tree[path] = back
    return HarnessTree(tree)
