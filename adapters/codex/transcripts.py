"""codex's sessions: `sessions/Y/M/D/rollout-*.jsonl`, the items of the responses wire in their order."""

from __future__ import annotations

from daemon.errors import DataError
from daemon.importing.conversation import ImportedSession
from daemon.importing.messages import call
from daemon.importing.openai_chat import count
from daemon.importing.transcript import LinesReader, Place, Trail, object_field, objects, plain, summary_message, text_field, time_of
from daemon.records import JSON, JSONObject

_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


class CodexTranscripts(LinesReader):
    name = "codex"
    variable = "CODEX_HOME"
    usual = ".codex"
    below = "sessions"

    def session_of(self, entries: list[JSONObject]) -> ImportedSession | None:
        head = object_field(entries[0], "payload")
        if entries[0].get("type") != "session_meta":
            raise DataError("it is no session of codex: its first line is no session's head")
        reading = _Reading(text_field(object_field(head, "base_instructions"), "text"))
        for entry in entries[1:]:
            reading.take(entry, object_field(entry, "payload"))
        reading.close()
        return reading.trail.session(self.name, head.get("id"), head.get("cwd"))


class _Reading:
    def __init__(self, instructions: str) -> None:
        self.trail = Trail()
        begin: list[JSONObject] = [{"role": "system", "content": instructions}] if instructions else []
        self._place = self.trail.said(Place(), *begin)
        self._begin = self._place
        self._begun: list[Place] = []  # before each of the person's turns, for what is taken back
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[JSON] = []
        self._time: float | None = None
        self._model = ""

    def take(self, entry: JSONObject, payload: JSONObject) -> None:
        kind, what = entry.get("type"), payload.get("type")
        if kind == "turn_context":
            self._model = text_field(payload, "model") or self._model
        elif kind == "token_usage_record":
            self.close(payload)
        elif kind == "compacted":
            self.close()
            self._place = self.trail.said(self._begin, *_compacted(payload))
        elif kind == "event_msg" and what == "task_started":
            self.close()
            self._begun.append(self._place)
        elif kind == "event_msg" and what == "thread_rolled_back":
            self.close()
            turns = min(count(payload.get("num_turns")), len(self._begun))
            if turns:
                self._place = self._begun[-turns]
                del self._begun[-turns:]
        elif kind == "response_item":
            self._item(payload, time_of(entry.get("timestamp")))

    def _item(self, item: JSONObject, when: float | None) -> None:
        kind, name = item.get("type"), text_field(item, "name")
        if kind == "message" and item.get("role") != "assistant":
            self.close()
            role = "user" if item.get("role") == "user" else "system"
            self._place = self.trail.said(self._place, {"role": role, "content": plain(item.get("content"))})
            return
        if kind in _OUTPUTS:
            self.close()
            given = item.get("output")
            output = object_field(item, "output").get("content") if isinstance(given, dict) else given
            result: JSONObject = {"role": "tool", "tool_call_id": text_field(item, "call_id"), "content": plain(output)}
            self._place = self.trail.said(self._place, result)
            return
        if kind == "message":
            self._texts.append(str(plain(item.get("content"))))
        elif kind == "reasoning":
            self._thoughts += [
                text for part in objects(item.get("content")) + objects(item.get("summary")) if (text := text_field(part, "text"))
            ]
        elif kind == "function_call" and name:
            self._calls.append(call(name, item.get("arguments"), text_field(item, "call_id")))
        elif kind == "custom_tool_call" and name:
            self._calls.append(call(name, {"input": item.get("input")}, text_field(item, "call_id")))
        elif kind == "local_shell_call":
            self._calls.append(call("local_shell", item.get("action"), text_field(item, "call_id")))
        else:
            return
        self._time = self._time or when

    def close(self, usage: JSONObject | None = None) -> None:
        """What came since the last input is one reply; `usage` is the line that tells what it cost and what its id was."""
        if not (self._texts or self._thoughts or self._calls):
            return
        reply: JSONObject = {"content": "\n".join(self._texts) or None}
        if self._thoughts:
            reply["reasoning_content"] = "\n".join(self._thoughts)
        if self._calls:
            reply["tool_calls"] = list(self._calls)
        tokens = object_field(usage or {}, "usage")
        self._place = self.trail.replied(
            self._place,
            reply,
            response_id=(usage or {}).get("response_id"),
            created_at=self._time,
            model=self._model,
            finish_reason="tool_calls" if self._calls else "stop",
            usage=(count(tokens.get("input_tokens")), count(tokens.get("output_tokens")), count(tokens.get("cached_input_tokens"))),
        )
        self._texts, self._thoughts, self._calls, self._time = [], [], [], None


def _compacted(payload: JSONObject) -> list[JSONObject]:
    """How the conversation goes on behind a compaction."""
    kept = [
        {"role": "user" if item.get("role") == "user" else "assistant", "content": plain(item.get("content"))}
        for item in objects(payload.get("replacement_history"))
        if item.get("type") == "message" and item.get("role") in ("user", "assistant")
    ]
    return [*kept] if kept else [summary_message(text_field(payload, "message"))]


READER = CodexTranscripts()
