"""What the files of a harness must say; each error names file and line."""

from __future__ import annotations

import json
import re

from daemon.errors import DataError
from daemon.harness.header import LONGEST_HEADER, HeaderError, read_header
from daemon.harness.hints import read_hints
from daemon.harness.rules import parse_rules
from daemon.harness_tree import RULES_PATH, SETTINGS_PATH, HarnessTree, check_tree
from daemon.records import JSON

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_MAX_DESCRIPTION = 1024


def check_harness(tree: HarnessTree) -> None:
    """Raises DataError for the first thing that an agent could not read."""
    check_tree(tree)
    if RULES_PATH in tree.files:
        parse_rules(tree.files[RULES_PATH])
    read_hints(tree)
    if SETTINGS_PATH in tree.files:
        _check_settings(tree.files[SETTINGS_PATH])
    for path in tree.files:
        parts = path.split("/")
        if parts[0] == "skills":
            _check_skill(tree, path, parts)
        elif parts[0] in ("prompts", "commands") and (len(parts) != 2 or not parts[1].endswith(".md")):
            raise DataError(f"{path}: {parts[0]} are files named {parts[0]}/NAME.md.", "Rename it.")


def front_matter(path: str, text: str) -> dict[str, JSON]:
    """The YAML between the leading `---` lines; empty where there is none.

    Raises:
        DataError: it does not end, or is no mapping; names file and line.
    """
    if not text.startswith("---\n"):
        return {}
    end = text.find("\n---", 3)
    if end < 0:
        raise DataError(f"{path}:1: the front matter does not end.", "Close it with a line `---`.")
    try:
        value = read_header(text[4:end])
    except HeaderError as error:
        hint = f"Quote a value that holds a colon; use no anchors, and at most {LONGEST_HEADER // 1024} KiB."
        raise DataError(f"{path}:{error.line + 1}: the front matter is no YAML.", hint) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DataError(f"{path}:2: the front matter is no mapping.", "Write lines such as `name: lint`.")
    return value


def _check_skill(tree: HarnessTree, path: str, parts: list[str]) -> None:
    if len(parts) < 3:
        raise DataError(f"{path}: a skill is a folder, skills/NAME/SKILL.md.", "Move it.")
    if not _NAME.fullmatch(parts[1]):
        raise DataError(f"{path}: {parts[1]!r} is no skill name.", "Use a-z, 0-9 and hyphens, at most 64.")
    main = f"skills/{parts[1]}/SKILL.md"
    if main not in tree.files:
        raise DataError(f"{path}: the skill {parts[1]!r} has no SKILL.md.", f"Add {main}.")
    if path != main:
        return
    text = tree.files[path]
    facts = front_matter(path, text)
    if facts.get("name") != parts[1]:
        raise DataError(f"{path}:{_line(text, 'name')}: `name` must be {parts[1]!r}, as its folder.", "Write it in the front matter.")
    description = facts.get("description")
    if not isinstance(description, str) or not description.strip() or len(description) > _MAX_DESCRIPTION:
        where = _line(text, "description")
        raise DataError(f"{path}:{where}: `description` must be 1 to {_MAX_DESCRIPTION} characters.", "Say when the skill helps.")


def _check_settings(text: str) -> None:
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except json.JSONDecodeError as error:
        raise DataError(f"{SETTINGS_PATH}:{error.lineno}: {error.msg}.", "It must be JSON.") from error
    except RecursionError as error:
        raise DataError(f"{SETTINGS_PATH}:1: nested too deeply.", "It must be plain JSON.") from error
    except ValueError as error:  # an agent that reads its file strictly would not start
        message = f"{SETTINGS_PATH}:1: a number that is none, or is too long, or half a character."
        raise DataError(message, "It must be JSON that every agent can read.") from error
    if not isinstance(value, dict):
        raise DataError(f"{SETTINGS_PATH}:1: no JSON object.", "Wrap it in braces.")


def _line(text: str, key: str) -> int:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(f"{key}:"):
            return number
    return 1
