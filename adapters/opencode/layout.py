"""Where the parts of a harness tree lie in opencode's folder, and back.

Rules and skills lie where the tree has them, extensions are opencode's plugins. opencode knows no difference between commands and prompt
templates, so a prompt is a command of its name. `settings.json` is merged into `opencode.json`. Reef's own plugins are no part of the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adapters.opencode.plugin import ENTRY, FOLDER, plugin_files
from adapters.opencode.settings import CONFIG_FILE, OWN_SETTINGS, TERMINAL_FILE, config_text, provider, terminal_text
from adapters.shared import BINDING_FILE, binding
from adapters.shared.objects import as_object, read_object, settings_back, write_object
from daemon.errors import DataError
from daemon.harness.adapter import InstallContext, Present, Rendering
from daemon.harness_tree import RULES_PATH, SETTINGS_PATH, HarnessTree

READS: Final = (RULES_PATH, CONFIG_FILE, "skills/", "commands/", "plugins/")
CONFIG_HOME: Final = "xdg/config"
"""Stands for ~/.config: opencode looks in `opencode/` of it too."""

LOCK_FILES: Final = ("package-lock.json", f"{CONFIG_HOME}/opencode/package-lock.json")
"""opencode fetches a package from npm into each of its configuration folders, but where this file says that it is there."""

SHARED: Final = frozenset({CONFIG_FILE, TERMINAL_FILE, *LOCK_FILES})
_PACKAGE = "@opencode-ai/plugin"
_NO_PACKAGES = "Nothing is fetched into this folder when opencode starts, unless a package.json beside it names what a plugin needs.\n"


def render(context: InstallContext, present: Present) -> Rendering:
    wanted = read_object("opencode", SETTINGS_PATH, context.tree.files.get(SETTINGS_PATH))
    last = read_object("opencode", BINDING_FILE, present(BINDING_FILE)).get("settings")
    before = [name for name in last if isinstance(name, str)] if isinstance(last, list) else []
    reef = provider(
        context.base_url,
        context.scenario,
        context.client_token_path,
        context.model_id,
        context.context_tokens,
        context.max_tokens,
        context.release_id,
    )
    files = _tree_files(context.tree)
    files |= plugin_files()
    files[BINDING_FILE] = write_object({**binding(context, "opencode"), "settings": [*sorted(wanted)]})
    files[CONFIG_FILE] = config_text(present(CONFIG_FILE), wanted, before, reef, context.model_id)
    files[TERMINAL_FILE] = terminal_text(present(TERMINAL_FILE))
    for lock in LOCK_FILES:
        files[lock] = _lock_text(present(lock))
        files[lock.replace("package-lock.json", "node_modules/README")] = _NO_PACKAGES
    return Rendering(files, shared=SHARED)


def read_back(context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
    was = context.tree.files
    places = ("skills/", "commands/", "prompts/", "extensions/")
    tree = {path: text for path, text in was.items() if path != RULES_PATH and not path.startswith(places)}
    for path, text in files.items():
        prompt = path.replace("commands/", "prompts/", 1)
        if path.startswith("commands/") and path not in was and prompt in was:
            tree[prompt] = text
        elif path.startswith("plugins/"):
            if path != ENTRY and not path.startswith(FOLDER):
                tree[path.replace("plugins/", "extensions/", 1)] = text
        elif path == RULES_PATH or path.startswith(("skills/", "commands/")):
            tree[path] = text
    settings = settings_back("opencode", was.get(SETTINGS_PATH), files.get(CONFIG_FILE), CONFIG_FILE, OWN_SETTINGS)
    if settings is not None:
        tree[SETTINGS_PATH] = settings
    return HarnessTree(tree)


def _tree_files(tree: HarnessTree) -> dict[str, str]:
    files: dict[str, str] = {}
    for path, text in tree.files.items():
        if path.startswith("extensions/"):
            plugin = path.replace("extensions/", "plugins/", 1)
            if plugin == ENTRY or plugin.startswith(FOLDER):
                raise DataError(f"{path}: this name is Reef's own in opencode.", "Use another name below extensions/.")
            files[plugin] = text
        elif path.startswith("prompts/"):
            command = path.replace("prompts/", "commands/", 1)
            if command in tree.files:
                raise DataError(f"{path} and {command} are the same command in opencode.", "Rename one of them.")
            files[command] = text
        elif path == RULES_PATH or path.startswith(("skills/", "commands/")):
            files[path] = text
    return files


def _lock_text(present: str | None) -> str:
    """What is there, where npm wrote it; else one that says that nothing is missing."""
    there = read_object("opencode", "package-lock.json", present)
    packages = as_object(there.get("packages"))
    if _PACKAGE in as_object(as_object(packages.get("")).get("dependencies")) and present is not None:
        return present
    return write_object({"lockfileVersion": 3, "packages": {"": {"dependencies": {_PACKAGE: "*"}}}})
