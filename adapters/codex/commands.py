"""Commands and prompts in codex, which knows neither any more: each is a skill that only the user calls, by typing `$NAME`.

The command's own text stands whole below a line that says where it comes from, so that it can be read back exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from daemon.errors import DataError
from daemon.harness.typed import COMMANDS
from daemon.harness.validate import front_matter
from daemon.harness_tree import HarnessTree

KINDS: Final = ("commands/", "prompts/")
TYPED: Final = {command if command.startswith("reef-") else f"reef-{command}": command for command in COMMANDS}
"""What the user types behind a `$` → Reef's command. The hook takes it before the model sees it."""
RESERVED: Final = tuple(f"skills/{name}/" for name in TYPED)

_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_MARK: Final = re.compile(r"^<!-- reef: [^\n]* -->\n", re.MULTILINE)
_POLICY: Final = "policy:\n  allow_implicit_invocation: false\n"
_MOST_DESCRIPTION: Final = 1024


def command_files(tree: HarnessTree) -> dict[str, str]:
    """Path below codex's folder → text, of the tree's commands and prompts that codex has a place for.

    Raises:
        DataError: two of them, or one and a skill, have the same name, or one has Reef's own.
    """
    files: dict[str, str] = {}
    for path in tree.files:
        if path.startswith(RESERVED):
            raise DataError(f"{path}: this skill is Reef's own in codex.", "Use another name.")
    for path, text in tree.files.items():
        folder = skill_of(path)
        if folder is None:
            continue
        if folder in RESERVED:
            raise DataError(f"{path}: this command is Reef's own in codex.", "Use another name.")
        others = [f"{folder}SKILL.md", *(path.replace(kind, other, 1) for kind in KINDS for other in KINDS if path.startswith(kind))]
        for other in others:
            if other != path and other in tree.files:
                raise DataError(f"{path} and {other} are the same skill in codex.", "Rename one of them.")
        files |= _skill(folder, _described(path, text), f"<!-- reef: {path}; what follows `${_name(folder)}` is its $ARGUMENTS -->\n{text}")
    return files


def own_files() -> dict[str, str]:
    """Reef's commands as skills, so that codex offers them as they are typed."""
    said = "Reef's hook takes this message before the model sees it. If you read this, the hook did not run: say so, and do nothing else.\n"
    files: dict[str, str] = {}
    for name, command in TYPED.items():
        does, words = COMMANDS[command]
        files |= _skill(f"skills/{name}/", f"{does.replace('/reef-', '$reef-')} {words}".rstrip(), said)
    return files


def skill_of(path: str) -> str | None:
    """The folder of the skill that a command or prompt of the tree is, with a slash at its end; None: codex has no place for `path`."""
    for kind in KINDS:
        name = path.removeprefix(kind).removesuffix(".md")
        if path.startswith(kind) and path.endswith(".md") and _NAME.fullmatch(name):
            return f"skills/{name}/"
    return None


def commands_back(was: Mapping[str, str], files: Mapping[str, str]) -> dict[str, str]:
    """Path in the tree → text, of the commands and prompts of the tree `was` that are there still, or have no place in codex."""
    back: dict[str, str] = {}
    for path, text in was.items():
        if not path.startswith(KINDS):
            continue
        folder = skill_of(path)
        if folder is None:
            back[path] = text
        elif (skill := files.get(f"{folder}SKILL.md")) is not None:
            back[path] = _unwrapped(skill)
    return back


def taken(was: Mapping[str, str]) -> frozenset[str]:
    """Paths below codex's folder that belong to commands of the tree `was`."""
    folders = [folder for path in was if (folder := skill_of(path)) is not None]
    return frozenset(f"{folder}{name}" for folder in folders for name in ("SKILL.md", "agents/openai.yaml"))


def _skill(folder: str, description: str, body: str) -> dict[str, str]:
    head = f"---\nname: {_name(folder)}\ndescription: {json.dumps(description, ensure_ascii=False)}\n---\n"
    return {f"{folder}SKILL.md": head + body, f"{folder}agents/openai.yaml": _POLICY}


def _name(folder: str) -> str:
    return folder.split("/")[1]


def _described(path: str, text: str) -> str:
    """The command's own description, or its first line."""
    facts = front_matter(path, text)
    told = facts.get("description")
    if not isinstance(told, str) or not told.strip():
        body = text if not facts else text.split("\n---", 1)[1]
        told = next((line.strip(" #-") for line in body.splitlines() if line.strip(" #-")), path)
    return " ".join(told.split())[:_MOST_DESCRIPTION]


def _unwrapped(skill: str) -> str:
    mark = _MARK.search(skill)
    if mark is not None:
        return skill[mark.end() :]
    head, _, body = skill.partition("\n---\n")  # somebody took the line away
    return body if head.startswith("---\n") else skill
