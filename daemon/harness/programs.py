"""What of a harness would run: files that are programs, and what commands and skills start when they are used.

A file is a program unless its name says that it is a text: agents start what lies beside a skill by any name. The tree knows no modes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from daemon.harness.finding import Finding, Lines
from daemon.harness.header import HeaderError, cut_header, read_header
from daemon.harness_tree import SETTINGS_PATH
from daemon.records import JSON

_FOLDERS = re.compile(r"^(?:extensions|plugins)/|(?:^|/)(?:hooks|scripts|bin)/")
_TEXT_SUFFIX = re.compile(
    r"\.(?:md|mdx|markdown|txt|rst|adoc|json|jsonl|json5|ya?ml|toml|ini|cfg|csv|tsv|html?|css|svg|xml|xsd|sql|diff|patch|tmpl|template|tex"
    r"|proto|graphql|log)$",
    re.IGNORECASE,
)
_TEXT_NAMES = frozenset({"license", "licence", "notice", "copying", "readme", "changelog", "authors"})
_PROGRAM_NAMES = frozenset(
    (
        *("package.json", "deno.json", "composer.json", "requirements.txt", "pyproject.toml", "setup.cfg", "cargo.toml", "cmakelists.txt"),
        *("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "taskfile.yml", "taskfile.yaml", "tasks.json"),
        *("mcp.json", ".mcp.json", ".lsp.json", "hooks.json", "plugin.json", "marketplace.json", "settings.json", "settings.local.json"),
    )
)
"""Texts that name programs to start, or to fetch."""

_EXPANDED = re.compile(r"^(?:commands|prompts|skills|agents)/.*\.(?:md|mdx|markdown)$|^skills/.*/agents/[^/]*\.ya?ml$", re.IGNORECASE)
_SHELL = re.compile(r"!`[^`]+`|(?:```|~~~)!.*?(?:```|~~~|\Z)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\$(?:\{[^}\n]*\}|[@*]|\w+)(?:\[\d*\])?")
"""What an agent replaces before it looks for commands to run; often by nothing."""
_BREAK = re.compile(r"[\r\x0b\x0c\x85\u2028\u2029]")
_KEY = r"(?:allowed[-_ ]?tools?|tools?|hooks?|shell|commands?|run|exec\w*|scripts?|permissions?[-_ ]?\w*|mcp\w*|env)"
_GRANT = re.compile(_KEY, re.IGNORECASE)
_GRANT_LINE = re.compile(rf"(?:^|[{{,])[ \t]*[\"']?({_KEY})[\"']?[ \t]*:", re.IGNORECASE | re.MULTILINE)
_RESTRICTION = re.compile(
    r"^[ \t]*[\"']?(disallow\w*[-_ ]?tools?|disable[-_ ]?model[-_ ]?invocation|tools?|permissions?)[\"']?[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
_ENTRY_END = re.compile(r"\n(?![ \t]|[ \t]*-\s)")
_PLAIN_LINE = re.compile(r"[ \t]*(?:$|#|[\w\"']|-[ \t])[^\\]*")
_MOST_SHOWN = 2000

RUNS = "executable: it never activates without a person's yes"
STARTS = "a shell command that runs when this is used"
GRANTS = "tools or programs that are granted without asking"
LANGUAGE = "front matter in another language, which an agent may run as a program"
LIFTED = "a restriction is lifted"
UNREADABLE = "front matter that cannot be read, and may grant tools or start programs"


def is_program(path: str, text: str) -> bool:
    """Whether the file would run as it stands."""
    name = path.rsplit("/", 1)[-1].casefold()
    if _FOLDERS.search(path) or (name in _PROGRAM_NAMES and path != SETTINGS_PATH) or text.removeprefix("\ufeff").startswith("#!"):
        return True
    return not (_TEXT_SUFFIX.search(name) or name in _TEXT_NAMES)


def started(path: str, text: str) -> Iterator[Finding]:
    """What a command, a prompt or a skill runs when it is used, or lets the agent run without asking."""
    if not _EXPANDED.search(path):
        return
    for line, span in _shell(text):
        yield Finding.of(path, line, span, STARTS, executable=True)
    header, language = cut_header(text)
    if language:
        line = text.count("\n", 0, text.index("---")) + 1
        yield Finding.of(path, line, f"---{language}", LANGUAGE, executable=True, within=text)
    if path.casefold().endswith((".yaml", ".yml")):
        header = text
    if header:
        yield from _granted(path, header)


def lifted(path: str, before: str, after: str) -> Iterator[Finding]:
    """What kept a command, a skill or an agent from something, and is not said any more. That its tools are others is a grant."""
    if not _EXPANDED.search(path):
        return
    stands = list(_restrictions(after))
    keys, entries = {key for key, _, _ in stands if _GRANT.fullmatch(key)}, {entry for _, _, entry in stands}
    for key, line, entry in _restrictions(before):
        if entry not in entries and key not in keys:
            yield Finding.of(path, line, entry[:_MOST_SHOWN], LIFTED)


def _restrictions(text: str) -> Iterator[tuple[str, int, str]]:
    """Key, line and whole entry of each in the front matter."""
    header, _ = cut_header(text)
    lines, broken = Lines(header), _BREAK.sub("\n", header.replace("\r\n", " \n"))  # of the same length
    for match in _RESTRICTION.finditer(broken):
        end = _ENTRY_END.search(broken, match.end())
        yield match[1].casefold(), lines.number(match.start(1)), header[match.start(1) : end.start() if end else None].strip()


def _shell(text: str) -> Iterator[tuple[int, str]]:
    """Line and command, also of those that stand there once the agent has put in what it was called with: `` !$1`id` ``."""
    lines, found = Lines(text), [(match.start(), match[0]) for match in _SHELL.finditer(text)]
    for start, span in found:
        yield lines.number(start), span
    bare = _PLACEHOLDER.sub("", text)
    if bare == text:
        return
    known, lines = {_PLACEHOLDER.sub("", span) for _, span in found}, Lines(bare)
    for match in _SHELL.finditer(bare):
        if match[0] not in known:
            yield lines.number(match.start()), match[0]


def _granted(path: str, header: str) -> Iterator[Finding]:
    """By the words of the header, for agents read what is no YAML too; and by what YAML makes of it, for that knows escapes."""
    values: dict[str, JSON] = {}
    lines, broken = Lines(header), _BREAK.sub("\n", header.replace("\r\n", " \n"))  # of the same length
    try:
        read = read_header(header)
    except HeaderError:
        read = None
        if not all(_PLAIN_LINE.fullmatch(line) for line in broken.split("\n")):
            first = len(header) - len(header.lstrip("\n"))
            yield Finding.of(path, first + 1, header[:_MOST_SHOWN], UNREADABLE, executable=True, within=header)
    if isinstance(read, dict):
        values = {str(key): value for key, value in read.items() if _GRANT.fullmatch(str(key))}
    for match in _GRANT_LINE.finditer(broken):
        end = _ENTRY_END.search(broken, match.end())
        entry = header[match.start(1) : end.start() if end else None]
        yield Finding.of(path, lines.number(match.start(1)), entry[:_MOST_SHOWN], GRANTS, executable=True, within=entry)
        values.pop(match[1], None)
    for key, value in values.items():
        yield Finding.of(path, 1, f"{key}: {json.dumps(value, default=str)}", GRANTS, executable=True)
