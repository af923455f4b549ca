"""What of a harness would run: files that are programs, and what commands and skills start when they are used.

A file is a program unless its name says that it is a text: agents start what lies beside a skill by any name. The tree knows no modes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import yaml

from daemon.harness.finding import Finding
from daemon.records import JSON

_FOLDERS = re.compile(r"^(?:extensions|plugins)/|(?:^|/)(?:hooks|scripts|bin)/")
_TEXT_SUFFIX = re.compile(
    r"\.(?:md|mdx|markdown|txt|rst|adoc|json|jsonl|json5|ya?ml|toml|ini|cfg|csv|tsv|html?|css|svg|xml|xsd|sql|diff|patch|tmpl|template|tex"
    r"|proto|graphql|log)$",
    re.IGNORECASE,
)
_TEXT_NAMES = frozenset({"license", "licence", "notice", "copying", "readme", "changelog", "authors"})
_PROGRAM_NAMES = frozenset({"package.json", ".mcp.json", "mcp.json", "hooks.json", "deno.json", "tasks.json"})
"""Texts that name programs to start."""

_EXPANDED = re.compile(r"^(?:commands|prompts|skills|agents)/.*\.(?:md|mdx|markdown)$", re.IGNORECASE)
_SHELL = re.compile(r"!`[^`]+`|^[ \t]*(?:```+|~~~+)![^\n]*\n.*?(?:^[ \t]*(?:```+|~~~+)|\Z)", re.MULTILINE | re.DOTALL)
_KEY = r"(?:allowed[-_ ]?tools?|tools?|hooks?|shell|commands?|run|exec\w*|scripts?|permissions?[-_ ]?\w*|mcp\w*|env)"
_GRANT = re.compile(_KEY, re.IGNORECASE)
_GRANT_LINE = re.compile(rf"(?:^|[{{,])[ \t]*[\"']?({_KEY})[\"']?[ \t]*:", re.IGNORECASE | re.MULTILINE)

RUNS = "executable: it never activates without a person's yes"
STARTS = "a shell command that runs when this is used"
GRANTS = "tools or programs that are granted without asking"


def is_program(path: str, text: str) -> bool:
    """Whether the file would run as it stands."""
    name = path.rsplit("/", 1)[-1].casefold()
    if _FOLDERS.search(path) or name in _PROGRAM_NAMES or text.removeprefix("\ufeff").startswith("#!"):
        return True
    return not (_TEXT_SUFFIX.search(name) or name in _TEXT_NAMES)


def started(path: str, text: str) -> Iterator[Finding]:
    """What a command, a prompt or a skill runs when it is used, or lets the agent run without asking."""
    if not _EXPANDED.search(path):
        return
    for match in _SHELL.finditer(text):
        yield Finding.of(path, text.count("\n", 0, match.start()) + 1, match[0], STARTS, executable=True)
    header = _header(text)
    if header:
        yield from _granted(path, header)


def _header(text: str) -> str:
    """What stands between the `---` lines at the beginning, or after the first where it does not end."""
    opening = re.match(r"[\ufeff\s]*---[ \t]*\r?\n", text)
    if opening is None:
        return ""
    closing = re.compile(r"^---[ \t]*\r?$", re.MULTILINE).search(text, opening.end())
    return "\n" * text.count("\n", 0, opening.end()) + text[opening.end() : closing.start() if closing else len(text)]


def _granted(path: str, header: str) -> Iterator[Finding]:
    """By the words of the header, for agents read what is no YAML too; and by what YAML makes of it, for that knows escapes."""
    values: dict[str, JSON] = {}
    try:
        read = yaml.safe_load(header)
    except (yaml.YAMLError, ValueError, RecursionError):
        read = None
    if isinstance(read, dict):
        values = {str(key): value for key, value in read.items() if _GRANT.fullmatch(str(key))}
    for match in _GRANT_LINE.finditer(header):
        end = re.compile(r"\n(?![ \t]|[ \t]*-\s)").search(header, match.end())
        yield Finding.of(path, header.count("\n", 0, match.start(1)) + 1, header[match.start(1) : end.start() if end else None], GRANTS,
                         executable=True)  # fmt: skip
        values.pop(match[1], None)
    for key, value in values.items():
        yield Finding.of(path, 1, f"{key}: {json.dumps(value, default=str)}", GRANTS, executable=True)
