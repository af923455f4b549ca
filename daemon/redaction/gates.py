"""Which rules can match a text at all, by few looks at it: most texts need none, and each look at one of 2 KB takes a microsecond.

A rule matches only where one of its literals stands. Many literals hold the same short text, their *stem* ("accountkey=" and "api_key"
hold "key"): where a stem is missing, so is all that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence

from daemon.redaction.rules import ASSIGNING, RUN_CHARACTERS, Rule

_SHARED_STEMS = ("--",)  # beside those literals that stand in others
_RUN_BYTES = bytes(code if (chr(code).isalnum() and code < 128) or chr(code) in "_-.+/=" else 32 for code in range(256))
_SAME_BYTES = bytes(32 if code == 32 else 97 for code in _RUN_BYTES)
_RUN = b"a" * RUN_CHARACTERS


class Gates:
    """The rules by number, as bits: what `open_for` gives."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.all = (1 << len(rules)) - 1
        self._always = self.in_run = 0
        free: dict[str, int] = {}  # rules by stem
        assigning: dict[str, int] = {}  # the same, for rules of which every match has an assigning character
        literals = {literal.lower() for rule in rules if not rule.in_run for literal in rule.literals if literal.isascii()}
        stems = sorted(literals.union(_SHARED_STEMS), key=len)
        for number, rule in enumerate(rules):
            bit = 1 << number
            if rule.in_run:
                self.in_run |= bit
            elif not rule.literals or not all(map(str.isascii, rule.literals)):
                self._always |= bit
            else:
                chosen = assigning if rule.assigns else free
                for literal in rule.literals:
                    stem = next(stem for stem in stems if stem in literal.lower())
                    chosen[stem] = chosen.get(stem, 0) | bit
        self._free = tuple(free.items())
        self._assigning = tuple(assigning.items())

    def open_for(self, text: str, lowered: str) -> int:
        """The rules that may match `text`, whose lower case is `lowered`."""
        found = self._always
        for stem, rules in self._free:
            if stem in lowered:
                found |= rules
        for character in ASSIGNING:
            if character in text:
                for stem, rules in self._assigning:
                    if stem in lowered:
                        found |= rules
                break
        if _RUN in text.encode(errors="surrogatepass").translate(_SAME_BYTES):
            found |= self.in_run
        return found


def runs(text: str) -> str:
    """The runs in which an issued token can lie, one a line."""
    words = text.encode(errors="surrogatepass").translate(_RUN_BYTES).split()
    return b"\n".join([word for word in words if len(word) >= RUN_CHARACTERS]).decode()
