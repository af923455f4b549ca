"""Judged replies: TRL's unpaired (`label`) and paired (`chosen`, `rejected`) lines, and OpenAI's preference form."""

from __future__ import annotations

from daemon.errors import DataError
from daemon.importing.conversation import ImportedSession, ImportedTurn
from daemon.importing.messages import check_message, text_of
from daemon.importing.openai_chat import functions
from daemon.records import JSON, JSONObject, Message


def is_unpaired(value: JSONObject) -> bool:
    return "prompt" in value and "completion" in value


def is_paired(value: JSONObject) -> bool:
    return {"chosen", "rejected"} <= value.keys() or {"preferred_output", "non_preferred_output"} <= value.keys()


def session_of_unpaired(value: JSONObject) -> ImportedSession:
    """`{"prompt", "completion", "label"}`: a reply that is good or bad; without a label, one that nobody judged. Raises `DataError`."""
    label = value.get("label")
    if label is not None and not isinstance(label, bool):
        raise DataError("'label' is neither true nor false.")
    score = None if label is None else 1.0 if label else -1.0
    turn = ImportedTurn(_prompt(value["prompt"]), _reply(value["completion"]), score=score)
    return ImportedSession((turn,), tools=functions(value))


def session_of_paired(value: JSONObject) -> ImportedSession:
    """A rejected reply with the preferred one as its correction; where the preferred one is more than text, both stand, scored.

    Raises:
        DataError: a side is no reply.
    """
    if "preferred_output" in value:
        given = value.get("input")
        request = given if isinstance(given, dict) else {}
        prompt, chosen, rejected = _prompt(request.get("messages")), value["preferred_output"], value["non_preferred_output"]
    else:
        request = value
        if "prompt" in value:
            prompt, chosen, rejected = _prompt(value["prompt"]), value["chosen"], value["rejected"]
        else:
            prompt, chosen, rejected = _shared(value["chosen"], value["rejected"])
    good, bad = _reply(chosen), _reply(rejected)
    text = text_of(good.get("content"))
    if text and not good.get("tool_calls"):
        turns: tuple[ImportedTurn, ...] = (ImportedTurn(prompt, bad, score=-1.0, feedback={"correction": text}),)
    else:
        turns = (ImportedTurn(prompt, bad, score=-1.0), ImportedTurn(prompt, good, score=1.0))
    return ImportedSession(turns, tools=functions(request))


def _prompt(value: JSON) -> tuple[Message, ...]:
    if isinstance(value, str):
        return ({"role": "user", "content": value},)
    if not isinstance(value, list) or not value:
        raise DataError("The prompt holds no messages.")
    return tuple(check_message(message) for message in value)


def _reply(value: JSON) -> Message:
    if isinstance(value, str):
        return {"role": "assistant", "content": value}
    if not isinstance(value, list) or len(value) != 1:
        raise DataError("A reply must be one message.")
    message = check_message(value[0])
    if message["role"] != "assistant":
        raise DataError("A reply is not the assistant's.")
    return message


def _shared(chosen: JSON, rejected: JSON) -> tuple[tuple[Message, ...], JSON, JSON]:
    """The prompt that two whole conversations have in common, and their last messages."""
    if not isinstance(chosen, list) or not isinstance(rejected, list) or len(chosen) < 2 or chosen[:-1] != rejected[:-1]:
        raise DataError("The two conversations do not share their prompt.")
    return _prompt(chosen[:-1]), chosen[-1:], rejected[-1:]
