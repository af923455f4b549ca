"""Where the parts of a harness tree lie in Claude Code's folder, and back.

Rules are `CLAUDE.md`. Skills lie where the tree has them. Claude Code knows no difference between commands and prompt templates: a prompt
is a command of its name. Extensions are the programs that hooks run: they lie in `hooks/`, and the harness's `settings.json` says when they
run, as `"$CLAUDE_CONFIG_DIR"/hooks/NAME`. `settings.json` is merged into Claude Code's own. Reef's commands are no part of the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adapters.claude.merging import still
from adapters.claude.settings import AGENT, FIRST_FILE, SETTINGS_FILE, first_text, given_settings, mine, own_settings, settings_text
from adapters.claude.window import fit_window
from adapters.shared import BINDING_FILE, binding
from adapters.shared.objects import as_object, read_object, write_object
from daemon.errors import DataError
from daemon.harness.adapter import InstallContext, Present, Rendering
from daemon.harness.typed import COMMANDS
from daemon.harness_tree import RULES_PATH, SETTINGS_PATH, HarnessTree

RULES_FILE: Final = "CLAUDE.md"
READS: Final = (RULES_FILE, SETTINGS_FILE, "skills/", "commands/", "hooks/")
_FOLDERS: Final = {"skills/": "skills/", "commands/": "commands/", "prompts/": "commands/", "extensions/": "hooks/"}
"""In the tree → in Claude Code's folder. `prompts/` comes after `commands/`: what is new in Claude Code's is a command."""
NO_RULES: Final = "No rules yet.\n"
"""Claude Code tells an open conversation of a change of this file, but not of one that comes or goes, and not where it was empty."""
_OWN_COMMANDS: Final = frozenset(f"commands/{name}.md" for name in COMMANDS)


def render(context: InstallContext, present: Present) -> Rendering:
    window = fit_window(context.context_tokens, context.max_tokens)
    wanted = read_object(AGENT, SETTINGS_PATH, context.tree.files.get(SETTINGS_PATH))
    before = as_object(read_object(AGENT, BINDING_FILE, present(BINDING_FILE)).get("settings"))
    given = given_settings(context, window, wanted, mine(present(SETTINGS_FILE), before))
    files = _tree_files(context.tree)
    programs = frozenset(path for path, text in files.items() if text.startswith("#!"))
    files.setdefault(RULES_FILE, NO_RULES)
    files |= {f"commands/{name}.md": _command_text(name) for name in COMMANDS}
    files[BINDING_FILE] = write_object({**binding(context, "claude"), "settings": given})
    files[FIRST_FILE] = first_text(context)
    files[SETTINGS_FILE] = settings_text(present(SETTINGS_FILE), given, before)
    return Rendering(files, programs, frozenset({SETTINGS_FILE}))


def read_back(context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
    was = context.tree.files
    tree = {path: text for path, text in was.items() if path != RULES_PATH and _placed(path) is None}
    for path, text in files.items():
        if path in _OWN_COMMANDS:
            continue
        if path == RULES_FILE:
            rules = text if text == was.get(RULES_PATH) else text.removeprefix(NO_RULES)
            if rules or text == rules:
                tree[RULES_PATH] = rules
        elif (origin := _origin(path, was)) is not None:
            tree[origin] = text
    if SETTINGS_PATH in was and SETTINGS_FILE in files:
        window = fit_window(context.context_tokens, context.max_tokens)
        wanted = read_object(AGENT, SETTINGS_PATH, was[SETTINGS_PATH])
        back = still(wanted, read_object(AGENT, SETTINGS_FILE, files[SETTINGS_FILE]), own_settings(context, window))
        tree[SETTINGS_PATH] = was[SETTINGS_PATH] if back == wanted else write_object(back)
    return HarnessTree(tree)


def _tree_files(tree: HarnessTree) -> dict[str, str]:
    files: dict[str, str] = {}
    origins: dict[str, str] = {}
    for path, text in tree.files.items():
        placed = RULES_FILE if path == RULES_PATH else _placed(path)
        if placed is None:
            continue
        if placed in _OWN_COMMANDS:
            raise DataError(f"{path}: this command is Reef's own in Claude Code.", "Give it another name.")
        if placed in files:
            raise DataError(f"{origins[placed]} and {path} are the same command in Claude Code.", "Rename one of them.")
        files[placed], origins[placed] = text, path
    return files


def _placed(path: str) -> str | None:
    """Where a file of the tree's folders lies in Claude Code's."""
    return next((f"{there}{path.removeprefix(here)}" for here, there in _FOLDERS.items() if path.startswith(here)), None)


def _origin(path: str, was: Mapping[str, str]) -> str | None:
    """Which file of the tree one of Claude Code's is: the one that it was, or else the first that it could be."""
    found = [f"{here}{path.removeprefix(there)}" for here, there in _FOLDERS.items() if path.startswith(there)]
    return next((one for one in found if one in was), found[0] if found else None)


def _command_text(name: str) -> str:
    """Reef's hook takes the command before a model sees this; what it says is for a Claude Code whose hooks are turned off.

    The model must not find it among its skills: it would judge itself.
    """
    what, words = COMMANDS[name]
    head = [f"description: {what}", *([f'argument-hint: "{words}"'] if words else []), "disable-model-invocation: true"]
    told = f"Reef's hook did not take /{name}: hooks are turned off, or fail. Reef's own commands do the same in a terminal: reef --help"
    return "\n".join(["---", *head, "---", f"Say this to the user, word by word, and do nothing else: {told}", ""])
