"""What the session files of coding agents have in common: where a reader says they lie, and how a tree of entries becomes a session."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final

from daemon.errors import DataError
from daemon.importing.conversation import MAX_MESSAGES, ImportedSession, ImportedTurn
from daemon.importing.files import Found, Skipped, find_files, read_file
from daemon.importing.messages import check_message, text_of
from daemon.records import JSON, JSONObject, Message, Usage

TRANSCRIPT_TAG: Final = "transcript"  # names the agent; what carries it is joined to records
CWD_TAG: Final = "cwd"
_OURS = re.compile(r"(?:chatcmpl-|msg_|resp_)([0-9a-hjkmnp-tv-z]{24})")
_BEGINS_WITH_SUMMARY = "The conversation history before this point was compacted into the following summary:\n\n<summary>\n"


class TranscriptReader(ABC):
    """Reads the session files that one agent keeps for itself. They are data: nothing in them is run, opened or fetched."""

    name: ClassVar[str]
    variable: ClassVar[str]  # of the environment: moves the agent's folder
    usual: ClassVar[str]  # that folder, below the user's home, where the variable is not set
    below: ClassVar[str]  # where in that folder the sessions lie

    def places(self, environment: Mapping[str, str], home: Path, installed: Path) -> list[Path]:
        """Where sessions lie on this machine: the user's own, and those of the agent that is installed in the folder `installed`."""
        own = Path(environment.get(self.variable) or home / self.usual)
        return [place for folder in (own, installed / "agent") if (place := folder / self.below).exists()]

    def files(self, path: Path) -> Iterator[Path | Skipped]:
        """The session files at or below `path`. Raises `NotFound`: there is no `path`."""
        for found in find_files([path]):
            if isinstance(found, Skipped) or found.suffix == ".jsonl" or found == path:
                yield found

    @abstractmethod
    def read(self, path: Path, on_bytes: Callable[[int], None]) -> Iterator[tuple[str, ImportedSession] | Skipped]:
        """The sessions of one file, each with its place, and what could not be read."""


class LinesReader(TranscriptReader):
    """An agent whose session is a file of JSON lines."""

    def read(self, path: Path, on_bytes: Callable[[int], None]) -> Iterator[tuple[str, ImportedSession] | Skipped]:
        entries: list[JSONObject] = []
        for found in read_file(path, on_bytes):
            if isinstance(found, Skipped):
                yield found
            elif isinstance(found, Found) and isinstance(found.value, dict):
                entries.append(found.value)
        if not entries:
            return
        try:
            session = self.session_of(entries)
        except DataError as error:
            yield Skipped(str(path), error.message)
            return
        if session is not None:
            yield str(path), session

    @abstractmethod
    def session_of(self, entries: list[JSONObject]) -> ImportedSession | None:
        """What the lines say; None: nobody was answered yet. Raises `DataError`: it is no session of this agent."""


@dataclass(frozen=True, slots=True)
class Place:
    """A point in a conversation: the turn that it lies behind, and what was said since."""

    turn: int | None = None
    added: tuple[Message, ...] = ()


class Trail:
    """Turns in the order in which they are found. A conversation goes on from any earlier place, so branches need nothing more."""

    def __init__(self) -> None:
        self.turns: list[ImportedTurn] = []

    def said(self, place: Place, *messages: JSONObject) -> Place:
        """The place behind `messages` of anybody but the model. Raises `DataError`."""
        added = (*place.added, *(check_message(message) for message in messages))
        if len(added) > MAX_MESSAGES:
            raise DataError(f"More than {MAX_MESSAGES:,} messages stand before a reply.")
        return Place(place.turn, added)

    def replied(
        self,
        place: Place,
        reply: JSONObject,
        *,
        response_id: JSON = None,
        created_at: float | None = None,
        model: JSON = "",
        finish_reason: str = "",
        usage: tuple[int, int, int] = (0, 0, 0),
    ) -> Place:
        """The place behind the model's reply. One that says nothing is left out. Raises `DataError`."""
        message = check_message({"role": "assistant", **reply})
        if not (text_of(message.get("content")) or message.get("tool_calls") or message.get("reasoning_content")):
            return place
        if place.turn is None and not any(one["role"] in ("user", "tool") for one in place.added):
            return self.said(place, message)  # nobody asked
        self.turns.append(
            ImportedTurn(
                place.added,
                message,
                place.turn,
                id=receipt_of(response_id),
                created_at=created_at,
                model=model[:200] if isinstance(model, str) else "",
                finish_reason=finish_reason,
                usage=Usage(*usage),
            )
        )
        return Place(len(self.turns) - 1)

    def session(self, agent: str, session: JSON, cwd: JSON, tools: tuple[JSONObject, ...] = ()) -> ImportedSession | None:
        """None: no turn was found. Raises `DataError`: the session has no id."""
        if not isinstance(session, str) or not session:
            raise DataError("The session has no id.")
        tags = {TRANSCRIPT_TAG: agent}
        if isinstance(cwd, str) and cwd:
            tags[CWD_TAG] = cwd[:256]
        return ImportedSession(tuple(self.turns), session[:200], tools, tags) if self.turns else None


def receipt_of(response_id: JSON) -> str:
    """The receipt that a reply's id names where Reef gave it; else empty."""
    match = _OURS.fullmatch(response_id) if isinstance(response_id, str) else None
    return f"rec_{match[1]}" if match else ""


def reply_message(text: str, thinking: str, calls: list[JSON]) -> JSONObject:
    """What the model said, in chat form."""
    reply: JSONObject = {"content": text or None}
    if thinking:
        reply["reasoning_content"] = thinking
    return {**reply, "tool_calls": calls} if calls else reply


def texts_of(parts: list[JSONObject], kind: str, name: str = "text") -> str:
    """The field `name` of all parts of one kind, together."""
    return "".join(text_field(part, name) for part in parts if part.get("type") == kind)


def summary_message(summary: str) -> JSONObject:
    """How a conversation begins whose earlier part was put together."""
    return {"role": "user", "content": f"{_BEGINS_WITH_SUMMARY}{summary}\n</summary>"}


def plain(content: JSON) -> JSON:
    """A text where parts hold text alone, parts in chat form otherwise. Pictures keep their place and lose their data."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            text = part.get("text")
            kind = part.get("type")
            if isinstance(text, str):
                texts.append(text)
            elif isinstance(kind, str) and "image" in kind:
                texts.append("[image]")
    return "\n".join(texts)


def text_field(value: JSONObject, name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def object_field(value: JSONObject, name: str) -> JSONObject:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def objects(value: JSON) -> list[JSONObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def time_of(value: JSON) -> float | None:
    """Seconds since the epoch, of a date in ISO form or of milliseconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1000 if 0 < value < 1e14 else None
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
