"""Schemas that several routes share."""

from __future__ import annotations

from daemon.openapi.schema import (
    ANY,
    BOOLEAN,
    INTEGER,
    NUMBER,
    OBJECT,
    TEXT,
    TIME,
    array,
    either,
    nullable,
    obj,
    one_of,
    ref,
)
from daemon.records import JSONObject

_ERRORS: dict[str, JSONObject] = {
    "ReefError": obj(
        {"error": obj({"code": TEXT, "message": TEXT, "hint": TEXT}, about="`hint` says what to type or set next; it may be empty.")}
    ),
    "OpenAIError": obj({"error": obj({"message": TEXT, "type": TEXT, "param": nullable(TEXT), "code": nullable(TEXT)})}),
    "AnthropicError": obj({"type": one_of("error"), "error": obj({"type": TEXT, "message": TEXT})}),
}

_EXPERIENCE: dict[str, JSONObject] = {
    "Receipt": obj({"agent_record_id": TEXT, "scenario": TEXT, "request_type": TEXT}, about="What names a stored record."),
    "Record": obj(
        {"agent_record_id": TEXT, "scenario": TEXT, "request_type": TEXT, "sequence": INTEGER, "created_at": TIME, "payload": OBJECT},
        about="Any item of a scenario's stream.",
    ),
    "Session": obj(
        {
            "id": TEXT,
            "scenario": TEXT,
            "title": TEXT,
            "created_at": TIME,
            "updated_at": TIME,
            "turns": either(INTEGER, array(ref("Turn"))),
            "asides": INTEGER,
            "reports": INTEGER,
            "releases": array(TEXT),
            "last_receipt": TEXT,
            "last_sequence": INTEGER,
        },
        {"live": BOOLEAN, "answering": BOOLEAN, "keeps": nullable(TEXT), "snippet": TEXT, "first": INTEGER, "all": INTEGER},
        about="In a list `turns` is their number; of one session it is the turns themselves.",
    ),
    "Turn": obj(
        {
            "receipt": TEXT,
            "session": TEXT,
            "sequence": INTEGER,
            "created_at": TIME,
            "release_id": TEXT,
            "model": TEXT,
            "wire": TEXT,
            "kind": TEXT,
            "status": one_of("ok", "aborted", "error"),
            "finish_reason": TEXT,
            "reply": OBJECT,
            "usage": obj({"prompt_tokens": INTEGER, "completion_tokens": INTEGER, "cached_tokens": INTEGER}),
        },
        {
            "step": one_of("unknown", "begin", "continue", "branch", "compaction", "retry", "choice"),
            "follows": nullable(TEXT),
            "line": INTEGER,
            "added": array(OBJECT),
            "message_count": INTEGER,
            "signals": array(TEXT),
            "retries": INTEGER,
            "number": nullable(INTEGER),
            "messages": array(OBJECT),
            "reports": array(OBJECT),
            "tags": OBJECT,
            "first_token_ms": NUMBER,
            "total_ms": NUMBER,
        },
        about="One record of a session; `added` are the messages that it adds to the one that it follows.",
    ),
    "Scenario": obj(
        {"name": TEXT, "release_id": TEXT, "model": TEXT, "sessions": INTEGER, "records": INTEGER, "reports": INTEGER, "imported": INTEGER}
    ),
}

_RELEASES: dict[str, JSONObject] = {
    "Release": obj(
        {
            "release_id": TEXT,
            "parent_release_id": nullable(TEXT),
            "content_id": TEXT,
            "operation": TEXT,
            "state": TEXT,
            "pending": BOOLEAN,
            "current": BOOLEAN,
            "recorded_at": ANY,
            "change": TEXT,
        },
        {
            "line": TEXT,
            "parts": array(obj({"text": TEXT, "weight": INTEGER})),
            "pinned": BOOLEAN,
            "aged": BOOLEAN,
            "promoted_as": nullable(TEXT),
            "weights_collected": BOOLEAN,
            "lora": nullable(TEXT),
            "evaluation": nullable(OBJECT),
            "verdict": ANY,
            "who": ANY,
            "run_id": nullable(TEXT),
            "sessions": array(ref("LearnedFrom")),
            "records_gone": INTEGER,
            "run": nullable(OBJECT),
            "sizes": obj({"lora_bytes": INTEGER, "harness_bytes": INTEGER, "files": INTEGER}),
            "later": array(TEXT),
        },
        about="`line` says what changed and what the evaluation showed; a narrow screen drops the `parts` of least weight first.",
    ),
    "LearnedFrom": obj(
        {"id": TEXT, "scenario": TEXT, "title": TEXT, "created_at": TIME, "receipts": INTEGER},
        about="A session that a release learned from, and how many of its turns.",
    ),
    "LineEvent": obj(
        {
            "release_id": TEXT,
            "state": TEXT,
            "event": one_of("brought", "removed", "brought back"),
            "path": TEXT,
            "line": TEXT,
            "number": nullable(INTEGER),
            "change": TEXT,
            "run_id": nullable(TEXT),
            "sessions": array(ref("LearnedFrom")),
            "reason": TEXT,
            "author": TEXT,
            "evidence": array(TEXT),
        }
    ),
    "Comparison": obj(
        {
            "before": TEXT,
            "after": TEXT,
            "line": TEXT,
            "same_content": BOOLEAN,
            "files": array(
                obj({"path": TEXT, "status": one_of("added", "removed", "changed"), "unified": TEXT, "hunks": array(OBJECT)}),
            ),
            "lora_before": nullable(OBJECT),
            "lora_after": nullable(OBJECT),
            "settings": array(obj({"name": TEXT, "before": ANY, "after": ANY})),
            "evaluation_before": nullable(OBJECT),
            "evaluation_after": nullable(OBJECT),
            "tasks_compared": nullable(TEXT),
            "tasks": OBJECT,
            "tally": OBJECT,
        },
        {"parts": array(obj({"text": TEXT, "weight": INTEGER}))},
        about="A hunk's lines come in segments, each with whether it changed. `tasks_compared`: together, in one evaluation, or apart.",
    ),
    "Run": obj(
        {
            "id": TEXT,
            "run_id": TEXT,
            "scenario": TEXT,
            "recipe": TEXT,
            "status": TEXT,
            "phase": TEXT,
            "started_at": TIME,
            "ended_at": nullable(TIME),
            "verdict": TEXT,
            "sentence": TEXT,
            "release_id": nullable(TEXT),
            "error": TEXT,
        },
        {"config": OBJECT, "trigger": TEXT},
    ),
}

_WIRES: dict[str, JSONObject] = {
    "Message": obj(
        {"role": one_of("system", "developer", "user", "assistant", "tool", "function")},
        {"content": nullable(either(TEXT, array(OBJECT))), "tool_calls": nullable(array(OBJECT)), "tool_call_id": TEXT, "name": TEXT},
    ),
    "Reef": obj(
        {"release_id": TEXT},
        {"agent_record_id": TEXT, "agent_record_ids": array(TEXT)},
        about="What a reply carries beyond its wire: the receipt, and the release that answered.",
    ),
    "Usage": obj({"prompt_tokens": INTEGER, "completion_tokens": INTEGER, "total_tokens": INTEGER}),
    "Model": obj(
        {"id": TEXT},
        {"object": TEXT, "type": TEXT, "created": INTEGER, "owned_by": TEXT, "context_window": INTEGER, "capabilities": ANY},
    ),
}

SCHEMAS: dict[str, JSONObject] = {**_ERRORS, **_WIRES, **_EXPERIENCE, **_RELEASES}
