"""`AGENTS.md` in sections: each `## Heading` begins one, with an id of its own.

The id is the heading's `<!-- id: NAME -->`, or else the heading in lower case with hyphens. Text before the first such
heading belongs to no section and is left as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from daemon.errors import DataError
from daemon.harness_tree import RULES_PATH

_ID = re.compile(r"<!--\s*id:\s*([a-z0-9][a-z0-9-]{0,63})\s*-->")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # newlines alone: Markdown knows no other line ends
_FENCE = re.compile(r"^\s{0,3}(```+|~~~+)")


@dataclass(frozen=True, slots=True)
class Section:
    id: str
    text: str  # heading and body, as they stand
    line: int  # of the heading, from 1


@dataclass(frozen=True, slots=True)
class Rules:
    preamble: str
    sections: tuple[Section, ...]

    def find(self, section_id: str) -> Section | None:
        return next((section for section in self.sections if section.id == section_id), None)

    @property
    def text(self) -> str:
        return self.preamble + "".join(section.text for section in self.sections)


def parse_rules(text: str) -> Rules:
    """Split without loss: `parse_rules(text).text == text`.

    Raises:
        DataError: two sections have one id; names the lines.
    """
    preamble: list[str] = []
    parts: list[tuple[str, int, list[str]]] = []
    fence = ""
    for number, line in enumerate(_LINE.findall(text), start=1):
        opening = _FENCE.match(line)
        if opening and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else opening[1]
        if line.startswith("## ") and not fence:
            parts.append((section_id(line), number, [line]))
        else:
            (parts[-1][2] if parts else preamble).append(line)
    first: dict[str, int] = {}
    for name, number, _ in parts:
        if name in first:
            message = f"{RULES_PATH}:{number}: the section id {name!r} is used on line {first[name]} already."
            raise DataError(message, "Give one of them another heading, or an id: <!-- id: NAME -->.")
        first[name] = number
    return Rules("".join(preamble), tuple(Section(name, "".join(lines), number) for name, number, lines in parts))


def section_id(heading: str) -> str:
    explicit = _ID.search(heading)
    if explicit:
        return explicit[1]
    words = re.sub(r"[^a-z0-9]+", "-", heading.lstrip("# ").casefold()).strip("-")
    return words[:64].strip("-") or "section"


def section_text(name: str, text: str, heading: str = "") -> str:
    """`text` as a section with the id `name`: with a heading that says so, `heading` where it has none, and a line's end."""
    body = text.strip("\n") + "\n"
    if not body.startswith("## "):
        return f"{heading or f'## {name}'}\n\n{body}"
    heading, _, rest = body.partition("\n")
    if section_id(heading) != name:
        heading = f"{_ID.sub('', heading).rstrip()} <!-- id: {name} -->"
    return f"{heading}\n{rest}"


def put_section(rules: Rules, name: str, text: str | None) -> Rules:
    """Replace a section where it stands, under its own heading unless the text brings one; append a new one; or take it out (None)."""
    old = rules.find(name)
    heading = old.text.partition("\n")[0].rstrip() if old is not None else ""
    new = Section(name, section_text(name, text, heading), 0) if text is not None else None
    if old is None:
        return Rules(_closed(rules.preamble) if not rules.sections else rules.preamble, (*_all_closed(rules), *([new] if new else [])))
    kept: list[Section] = []
    for section in rules.sections:
        if section.id != name:
            kept.append(section)
        elif new is not None:
            last = section is rules.sections[-1]
            kept.append(new if last else Section(name, _closed(new.text), 0))
    return Rules(rules.preamble, tuple(kept))


def _all_closed(rules: Rules) -> list[Section]:
    return [*rules.sections[:-1], *(Section(one.id, _closed(one.text), one.line) for one in rules.sections[-1:])]


def _closed(text: str) -> str:
    """With an empty line at its end, so that a heading may follow."""
    return text.rstrip("\n") + "\n\n" if text.strip("\n") else ""
