"""What a value out of a file is: recognised by its shape, whichever file it lies in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from daemon.errors import DataError
from daemon.importing import atif, openai_chat, preference, sharegpt
from daemon.importing.conversation import ImportedSession
from daemon.importing.envelope import Envelope, envelope_of, is_envelope
from daemon.importing.files import Found, Skipped, find_files, read_file, read_lines
from daemon.records import JSON

FORMS = "Reef's records, OpenAI chat lines and request/response pairs, ShareGPT, TRL or OpenAI preference lines, ATIF trajectories"


def recognise(value: JSON) -> list[ImportedSession | Envelope]:
    """The sessions of one value, or a record that goes in as it is.

    Raises:
        DataError: it is none of `FORMS`, or not whole.
    """
    if not isinstance(value, dict):
        raise DataError("it is not an object")
    if is_envelope(value):
        return [envelope_of(value)]
    if atif.is_trajectory(value):
        return list(atif.sessions_of(value))
    if preference.is_paired(value):
        return [_tagged(preference.session_of_paired(value), "preference")]
    if preference.is_unpaired(value):
        return [_tagged(preference.session_of_unpaired(value), "preference")]
    if openai_chat.is_pair(value):
        return [_tagged(openai_chat.session_of_pair(value), "openai")]
    if "messages" in value:
        return [_tagged(openai_chat.session_of_line(value), "openai")]
    if "conversations" in value:
        return [_tagged(sharegpt.session_of(value), "sharegpt")]
    raise DataError("its form is not known")


def read(
    paths: Sequence[Path], standard_input: BinaryIO | None, on_bytes: Callable[[int], None]
) -> Iterator[tuple[str, ImportedSession | Envelope] | Skipped]:
    """Everything in the files and folders, and in what is piped in, each with its place. Raises `NotFound` for a path that is not there."""
    for found in _values(paths, standard_input, on_bytes):
        if isinstance(found, Skipped):
            yield found
            continue
        try:
            items = recognise(found.value)
        except DataError as error:
            yield Skipped(found.where, error.message)
            continue
        for item in items:
            yield found.where, item


def _values(paths: Sequence[Path], standard_input: BinaryIO | None, on_bytes: Callable[[int], None]) -> Iterator[Found | Skipped]:
    if standard_input is not None:
        yield from read_lines(standard_input, "standard input", on_bytes)
    for path in find_files(paths):
        if isinstance(path, Skipped):
            yield path
        else:
            yield from read_file(path, on_bytes)


def _tagged(session: ImportedSession, form: str) -> ImportedSession:
    return ImportedSession(session.turns, session.id, session.tools, {**session.tags, "form": form})
