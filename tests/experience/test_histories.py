"""What is remembered of a resent conversation is used for that one alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daemon.experience.reader import Reader
from daemon.experience.sessions.keys import conversation_key, conversation_keys, conversation_marks, history_of
from daemon.experience.store import Store
from daemon.fingerprint import history
from daemon.records import Lineage, Message
from tests.experience.make import assistant, inference, user

SECRET = "ghp_" + "a1B2" * 9


def _long(first: str, turns: int = 30) -> tuple[Message, ...]:
    return (user(first), *(message for turn in range(turns) for message in (assistant(f"reply {turn}"), user(f"go on, {turn}"))))


def test_marks_of_a_conversation_are_those_of_its_parts() -> None:
    messages = _long("a beginning")
    for end in (0, 1, 31, 32, 33, 40, 61, 35):
        marks = conversation_marks(messages[:end])
        assert marks == conversation_marks(messages)[:end]
    assert conversation_marks(_long("another beginning"))[60] != conversation_marks(messages)[60]
    edited = (*messages[:40], user("something else"), *messages[41:])
    assert conversation_marks(edited)[:40] == conversation_marks(messages)[:40]
    assert conversation_marks(edited)[40:] != conversation_marks(messages)[40:]


@pytest.mark.parametrize("ends", [(1, 3, 61), (61, 3), (40, 40, 41)])
def test_the_key_of_a_conversation_does_not_depend_on_what_was_seen_before(ends: tuple[int, ...]) -> None:
    messages = _long(f"of keys {ends}")
    for end in ends:
        part = messages[:end]
        assert conversation_key(part, history(part)) == conversation_keys(part)[-1]
    assert conversation_key((), history(())) == b""


def test_a_history_is_taken_from_the_marks_of_the_very_same_messages_only() -> None:
    messages = _long("mine")
    marks = conversation_marks(messages)
    assert history_of(messages, marks) == history(messages)
    other = (*messages[:-1], user("other"))
    assert history_of(other, marks) == history(other) != history(messages)


def test_a_secret_is_replaced_although_its_record_came_before_without_it(store: Store, reader: Reader) -> None:
    """The recorder hands on a record that it has redacted itself, with the marks of what the client sent."""
    sent = _long(f"my key is {SECRET}")
    lineage = Lineage(keys=conversation_marks(sent))
    clean = inference(_long("my key is [redacted:github-token]"), lineage=lineage)
    store.append(clean).result(10)
    for record in (inference(sent, lineage=replace(lineage)), inference((*sent, assistant("yes"), user("and?")))):
        store.append(record).result(10)
        stored = reader.inference(record.id)
        assert SECRET not in str(stored.messages)
        assert stored.redactions == 1
