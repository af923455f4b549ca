"""What a check of the suite says, and how it ends early."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"  # the server broke the protocol; agents trip over it
    WEAK = "weak"  # the protocol held, the model did not manage
    ABSENT = "absent"  # the server says that it does not offer this
    SKIPPED = "skipped"  # could not be tried here


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the report."""

    check: str
    group: str
    verdict: Verdict
    sentence: str
    seconds: float = 0.0


class Ended(Exception):
    """A check ends before its last line; `sentence` says why."""

    verdict = Verdict.FAIL

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class Failed(Ended):
    verdict = Verdict.FAIL


class Weak(Ended):
    verdict = Verdict.WEAK


class Absent(Ended):
    verdict = Verdict.ABSENT


class Skipped(Ended):
    verdict = Verdict.SKIPPED


class Refused(Failed):
    """The server answered with an error status where the suite expected a reply."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(f"The request was refused with status {status}: {shorten(text) or 'no text'}")
        self.status = status
        self.code = code
        self.text = text


def shorten(text: str, limit: int = 160) -> str:
    """One printable line: what a server sends must not steer a terminal."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
