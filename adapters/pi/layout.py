"""Where the parts of a harness tree lie in pi's folder, and back.

Rules, skills, prompts and extensions lie where the tree has them. pi knows no difference between commands and prompt templates, so a
command is a prompt of its name. `settings.json` is merged into pi's own. Reef's extension is no part of the tree: `extensions/reef/`.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.pi.extension import FOLDER, extension_files
from adapters.pi.settings import MODELS_FILE, OWN_SETTINGS, SETTINGS_FILE, models_text, provider, settings_text
from adapters.pi.window import fit_window
from adapters.shared import BINDING_FILE, binding
from adapters.shared.objects import read_object, settings_back, write_object
from daemon.errors import DataError
from daemon.harness.adapter import InstallContext, Present, Rendering
from daemon.harness_tree import RULES_PATH, SETTINGS_PATH, HarnessTree

READS = (RULES_PATH, SETTINGS_FILE, "skills/", "prompts/", "extensions/")
SHARED = frozenset({MODELS_FILE, SETTINGS_FILE})
_AS_THEY_ARE = ("skills/", "prompts/", "extensions/")


def render(context: InstallContext, present: Present) -> Rendering:
    window = fit_window(context.context_tokens, context.max_tokens)
    wanted = read_object("pi", SETTINGS_PATH, context.tree.files.get(SETTINGS_PATH))
    last = read_object("pi", BINDING_FILE, present(BINDING_FILE)).get("settings")
    before = [name for name in last if isinstance(name, str)] if isinstance(last, list) else []
    reef = provider(context.base_url, context.scenario, context.client_token_path, context.model_id, window, context.release_id)
    files = _tree_files(context.tree)
    files |= extension_files()
    files[BINDING_FILE] = write_object({**binding(context, "pi"), "settings": [*sorted(wanted)]})
    files[MODELS_FILE] = models_text(present(MODELS_FILE), reef)
    files[SETTINGS_FILE] = settings_text(present(SETTINGS_FILE), wanted, before, context.model_id, window)
    return Rendering(files, shared=SHARED)


def read_back(context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
    was = context.tree.files
    tree = {path: text for path, text in was.items() if path != RULES_PATH and not path.startswith((*_AS_THEY_ARE, "commands/"))}
    for path, text in files.items():
        command = path.replace("prompts/", "commands/", 1)
        if path.startswith("prompts/") and path not in was and command in was:
            tree[command] = text
        elif path == RULES_PATH or (path.startswith(_AS_THEY_ARE) and not path.startswith(FOLDER)):
            tree[path] = text
    settings = settings_back("pi", was.get(SETTINGS_PATH), files.get(SETTINGS_FILE), SETTINGS_FILE, OWN_SETTINGS)
    if settings is not None:
        tree[SETTINGS_PATH] = settings
    return HarnessTree(tree)


def _tree_files(tree: HarnessTree) -> dict[str, str]:
    files: dict[str, str] = {}
    for path, text in tree.files.items():
        if path.startswith(FOLDER):
            raise DataError(f"{path}: this folder is Reef's own in pi.", "Use another name below extensions/.")
        if path.startswith("commands/"):
            prompt = path.replace("commands/", "prompts/", 1)
            if prompt in tree.files:
                raise DataError(f"{path} and {prompt} are the same command in pi.", "Rename one of them.")
            files[prompt] = text
        elif path == RULES_PATH or path.startswith(_AS_THEY_ARE):
            files[path] = text
    return files
