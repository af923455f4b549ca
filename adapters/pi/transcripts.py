"""pi's sessions: `sessions/--<cwd>--/<time>_<id>.jsonl`, entries that form a tree, versions 1 to 3."""

from __future__ import annotations

from daemon.errors import DataError
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
    summary_message,
    text_field,
    texts_of,
    time_of,
)
from daemon.records import JSON, JSONObject

_FINISH = {"stop": "stop", "length": "length", "toolUse": "tool_calls", "aborted": "aborted", "error": "error"}
_BRANCH = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n"


class PiTranscripts(LinesReader):
    name = "pi"
    variable = "PI_CODING_AGENT_DIR"
    usual = ".pi/agent"
    below = "sessions"

    def session_of(self, entries: list[JSONObject]) -> ImportedSession | None:
        head = entries[0]
        if head.get("type") != "session":
            raise DataError("it is no session of pi: its first line is no session's head")
        reading = _Reading()
        for entry in entries[1:]:
            reading.take(entry)
        return reading.trail.session(self.name, head.get("id"), head.get("cwd"), reading.tools)


class _Reading:
    def __init__(self) -> None:
        self.trail = Trail()
        self.tools: tuple[JSONObject, ...] = ()
        self._places: dict[str, Place] = {}
        self._parents: dict[str, str] = {}
        self._messages: dict[str, JSONObject] = {}  # entry → what the model is told by it
        self._last = ""

    def take(self, entry: JSONObject) -> None:
        key, parent = text_field(entry, "id"), entry.get("parentId", self._last)  # version 1 has no tree
        above = parent if isinstance(parent, str) else ""
        before = self._places.get(above, Place())
        self._parents[key] = above
        self._last = key
        kind = entry.get("type")
        if kind == "compaction":
            self._places[key] = self._compacted(entry, above)
        elif kind == "message":
            self._places[key] = self._message(entry, object_field(entry, "message"), before, key)
        elif kind == "custom_message":
            self._places[key] = self._said(key, before, {"role": "user", "content": plain(entry.get("content"))})
        elif kind == "branch_summary":
            summary = f"{_BRANCH}{text_field(entry, 'summary')}</summary>"
            self._places[key] = self._said(key, before, {"role": "user", "content": summary})
        else:
            self._places[key] = before

    def _said(self, key: str, before: Place, message: JSONObject) -> Place:
        self._messages[key] = message
        return self.trail.said(before, message)

    def _message(self, entry: JSONObject, message: JSONObject, before: Place, key: str) -> Place:
        role = message.get("role")
        if role == "assistant":
            reply = _reply(message)
            self._messages[key] = {"role": "assistant", **reply}
            usage = object_field(message, "usage")
            cached = count(usage.get("cacheRead"))
            return self.trail.replied(
                before,
                reply,
                response_id=message.get("responseId"),
                created_at=time_of(entry.get("timestamp")),
                model=message.get("model"),
                finish_reason=_FINISH.get(text_field(message, "stopReason"), ""),
                usage=(count(usage.get("input")) + cached + count(usage.get("cacheWrite")), count(usage.get("output")), cached),
            )
        if role == "system":
            if not self.tools:
                self.tools = tuple(_function(tool) for tool in objects(message.get("toolsAdded")))
            text = _system(message)
            return self.trail.said(before, {"role": "system", "content": text}) if text else before
        if role == "user":
            return self._said(key, before, {"role": "user", "content": plain(message.get("content"))})
        if role == "toolResult":
            content = plain(message.get("content"))
            return self._said(key, before, {"role": "tool", "tool_call_id": text_field(message, "toolCallId"), "content": content})
        if role == "bashExecution" and message.get("excludeFromContext") is not True:
            output = text_field(message, "output")
            text = f"Ran `{text_field(message, 'command')}`\n" + (f"```\n{output}\n```" if output else "(no output)")
            return self._said(key, before, {"role": "user", "content": text})
        if role in ("custom", "hookMessage"):
            return self._said(key, before, {"role": "user", "content": plain(message.get("content"))})
        return before

    def _compacted(self, entry: JSONObject, parent: str) -> Place:
        """A conversation begins anew: the summary, then what was kept from `firstKeptEntryId` on."""
        kept: list[JSONObject] = []
        first, at, seen = text_field(entry, "firstKeptEntryId"), parent, set[str]()
        while at and at not in seen:
            seen.add(at)
            if at in self._messages:
                kept.append(self._messages[at])
            if at == first:
                break
            at = self._parents.get(at, "")
        else:
            kept = []
        system = _system(object_field(entry, "systemMessage"))
        begin: list[JSONObject] = [{"role": "system", "content": system}] if system else []
        return self.trail.said(Place(), *begin, summary_message(text_field(entry, "summary")), *reversed(kept))


def _reply(message: JSONObject) -> JSONObject:
    parts = objects(message.get("content"))
    calls: list[JSON] = [
        call(text_field(part, "name"), part.get("arguments"), text_field(part, "id"))
        for part in parts
        if part.get("type") == "toolCall" and part.get("name")
    ]
    return reply_message(texts_of(parts, "text"), texts_of(parts, "thinking", "thinking"), calls)


def _system(message: JSONObject) -> str:
    """Its own text, then its sections in their order."""
    sections = [text for text in object_field(message, "sections").values() if isinstance(text, str) and text]
    own = plain(message.get("content")) if message else ""
    return "\n\n".join([own, *sections] if isinstance(own, str) and own else sections)


def _function(tool: JSONObject) -> JSONObject:
    known: JSONObject = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": "function", "function": known}


READER = PiTranscripts()
