"""Claude Code's sessions: `projects/<cwd>/<session>.jsonl`, a tree by `parentUuid`.

One reply lies in several lines, a block each, with the same `message.id`; results of calls that were made at once hang below
different ones of them. Those lines are one reply here, and all results stand behind it.
"""

from __future__ import annotations

from daemon.importing.conversation import ImportedSession
from daemon.importing.messages import call
from daemon.importing.openai_chat import count
from daemon.importing.transcript import (
    LinesReader,
    Place,
    Trail,
    object_field,
    objects,
    plain,
    reply_message,
    text_field,
    texts_of,
    time_of,
)
from daemon.records import JSON, JSONObject, Message

_FINISH = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


class ClaudeTranscripts(LinesReader):
    name = "claude"
    variable = "CLAUDE_CONFIG_DIR"
    usual = ".claude"
    below = "projects"

    def session_of(self, entries: list[JSONObject]) -> ImportedSession | None:
        said = [entry for entry in entries if isinstance(entry.get("uuid"), str)]
        reading = _Reading(said)
        for entry in said:
            reading.take(entry)
        if not reading.trail.turns:
            return None
        first = next(entry for entry in said if entry.get("type") == "assistant")
        session, agent = text_field(first, "sessionId"), text_field(first, "agentId")
        # a subagent's lines name the session that it works for; it is a conversation of its own
        return reading.trail.session(self.name, f"{session}/{agent}" if agent else session, first.get("cwd"))


class _Reading:
    def __init__(self, entries: list[JSONObject]) -> None:
        self.trail = Trail()
        self._places: dict[str, Place] = {}
        self._blocks: dict[str, list[JSONObject]] = {}  # reply's id → its blocks, of all lines
        self._done: dict[str, Place] = {}  # reply's id → the place behind it
        self._results: dict[str, Message] = {}  # call → its result
        for entry in entries:
            message = object_field(entry, "message")
            blocks = objects(message.get("content"))
            if entry.get("type") == "assistant":
                self._blocks.setdefault(text_field(message, "id"), []).extend(blocks)
            else:
                for block in blocks:
                    if block.get("type") == "tool_result":
                        called = text_field(block, "tool_use_id")
                        self._results[called] = {"role": "tool", "tool_call_id": called, "content": plain(block.get("content"))}
        self._prompt = next((text for entry in entries if (text := _prompt(entry))), "")

    def take(self, entry: JSONObject) -> None:
        key, parent = text_field(entry, "uuid"), text_field(entry, "parentUuid")
        place = self._places.get(parent, Place())
        kind, message = entry.get("type"), object_field(entry, "message")
        if kind == "assistant":
            self._places[key] = self._assistant(entry, message, place)
        elif kind == "user":
            self._places[key] = self._user(message, place)
        else:
            self._places[key] = place

    def _assistant(self, entry: JSONObject, message: JSONObject, place: Place) -> Place:
        given = text_field(message, "id")
        if given in self._done:
            return self._done[given]
        if message.get("model") == "<synthetic>":  # the client's own words
            return place
        if place.turn is None and self._prompt and not any(one["role"] == "system" for one in place.added):
            place = Place(None, ({"role": "system", "content": self._prompt}, *place.added))
        usage = object_field(message, "usage")
        cached = count(usage.get("cache_read_input_tokens"))
        read = count(usage.get("input_tokens")) + cached + count(usage.get("cache_creation_input_tokens"))
        behind = self.trail.replied(
            place,
            _reply(self._blocks.get(given, [])),
            response_id=given,
            created_at=time_of(entry.get("timestamp")),
            model=message.get("model"),
            finish_reason=_FINISH.get(text_field(message, "stop_reason"), ""),
            usage=(read, count(usage.get("output_tokens")), cached),
        )
        if given:
            self._done[given] = behind
        return behind

    def _user(self, message: JSONObject, place: Place) -> Place:
        content = message.get("content")
        parts = objects(content)
        answered = {text_field(part, "tool_use_id") for part in parts if part.get("type") == "tool_result"}
        if answered:
            place = self._answered(place, answered)
        text = plain([part for part in parts if part.get("type") != "tool_result"] if isinstance(content, list) else content)
        return self.trail.said(place, {"role": "user", "content": text}) if text else place

    def _answered(self, place: Place, answered: set[str]) -> Place:
        """Behind the results of all calls of the reply, whichever line they hang below."""
        there = {one.get("tool_call_id") for one in place.added if one["role"] == "tool"}
        made: list[JSON] = []
        if place.turn is not None:
            calls = self.trail.turns[place.turn].reply.get("tool_calls")
            made = [one.get("id") for one in objects(calls)]
        wanted = [called for called in made if called in self._results] or sorted(answered)
        return self.trail.said(place, *(self._results[str(called)] for called in wanted if called not in there))


def _reply(blocks: list[JSONObject]) -> JSONObject:
    calls: list[JSON] = [
        call(text_field(block, "name"), block.get("input"), text_field(block, "id"))
        for block in blocks
        if block.get("type") == "tool_use" and block.get("name")
    ]
    return reply_message(texts_of(blocks, "text"), texts_of(blocks, "thinking", "thinking"), calls)


def _prompt(entry: JSONObject) -> str:
    """The system text that a line beside the conversation keeps."""
    attachment = object_field(entry, "attachment")
    if attachment.get("type") != "prompt_snapshot":
        return ""
    text = plain(attachment.get("systemPrompt"))
    return text.strip() if isinstance(text, str) else ""


READER = ClaudeTranscripts()
