"""What stands between the `---` lines at the beginning of a Markdown file, read without trusting it.

Whoever writes it may mean to stall the reader: it is bounded, aliases are refused (a few of them stand for gigabytes), and whatever the
parser stumbles over is the same error.
"""

from __future__ import annotations

import json
import re
from typing import Final

import yaml

from daemon.records import JSON

LONGEST_HEADER: Final = 16 * 1024
"""Characters: the parser takes .1 s for as many."""
_OPENING = re.compile(r"[\ufeff\s]*---(?!-)([^\n]*)\n")
_CLOSING = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)


class HeaderError(ValueError):
    """`line` counts from 1, in the YAML."""

    def __init__(self, line: int) -> None:
        super().__init__("no YAML that can be read")
        self.line = line


class _Plain(yaml.SafeLoader):
    """YAML without anchors' uses."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "an alias", self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)


def read_header(text: str) -> JSON:
    """Raises HeaderError for what is too long, or no plain YAML."""
    if len(text) > LONGEST_HEADER:
        raise HeaderError(1)
    try:
        value: JSON = yaml.load(text, _Plain)
        json.dumps(value, default=str, ensure_ascii=False, skipkeys=True).encode()  # half a character is none
    except yaml.MarkedYAMLError as error:
        raise HeaderError(error.problem_mark.line + 1 if error.problem_mark is not None else 1) from error
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise HeaderError(1) from error  # the parser's own slips: a date that is none, an empty number, a tag without a value
    return value


def cut_header(text: str) -> tuple[str, str]:
    """The header, with an empty line for each before it, and what the opening line says behind its dashes.

    Read as the most generous agent does: after empty lines, with anything behind the dashes, to the end where it does not end.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return "", ""
    closing = _CLOSING.search(text, opening.end())
    return "\n" * text.count("\n", 0, opening.end()) + text[opening.end() : closing.start() if closing else len(text)], opening[1].strip()
