"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    OK = "ok"
    NOTE = "note"  # Reef serves without it
    FAIL = "fail"  # Reef cannot serve


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: what was looked at, how it is, and what to type if it is not as it should be."""

    check: str
    state: State
    sentence: str
    hint: str = ""
