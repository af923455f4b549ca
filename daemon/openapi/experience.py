"""Feedback, records, sessions and scenarios."""

from __future__ import annotations

from daemon.openapi.operation import Operation
from daemon.openapi.schema import ANY, BOOLEAN, INTEGER, NUMBER, OBJECT, TEXT, array, either, integer, nullable, obj, optionals, ref, text
from daemon.records import JSONObject

_AREA = "Experience"
_SCENARIO = "/reef/scenarios/{scenario}"
_CONTRACT = obj({"scenario": TEXT, "model": TEXT, "recipe": ANY, "mode": TEXT, "takes": OBJECT})
_CURSOR: JSONObject = integer(0, (1 << 63) - 1)
_IMPORT = obj({"agent_record_id": text(200, least=1), "request_type": text(200, least=1), "payload": OBJECT})
_SESSION = obj(
    {
        "turns": array(
            obj(
                {"added": array(OBJECT), "reply": OBJECT},
                optionals(
                    {
                        "parent": integer(0),
                        "id": TEXT,
                        "created_at": NUMBER,
                        "model": TEXT,
                        "finish_reason": TEXT,
                        "usage": OBJECT,
                        "score": NUMBER,
                        "feedback": either(TEXT, OBJECT),
                    }
                ),
            ),
            least=1,
        )
    },
    optionals({"id": TEXT, "tools": array(OBJECT), "tags": OBJECT}),
)
_IN_SCENARIO: dict[str, JSONObject] = {"x-reef-scenario": {**text(100), "description": "The default one otherwise."}}

EXPERIENCE: tuple[Operation, ...] = (
    Operation(
        "POST",
        "/reef/report",
        "Feedback on receipts; 200 means stored.",
        _AREA,
        {200: ref("Receipt")},
        obj(
            {},
            optionals(
                {
                    "agent_record_id": text(200),
                    "references": either(TEXT, array(TEXT, most=1000)),
                    "session": text(200),
                    "score": NUMBER,
                    "feedback": either(TEXT, OBJECT),
                    "metadata": OBJECT,
                }
            ),
        ),
        headers=_IN_SCENARIO,
        errors=(404, 409, 429),
    ),
    Operation(
        "POST",
        "/reef/records",
        "Store a record that comes from elsewhere.",
        _AREA,
        {200: ref("Receipt")},
        _IMPORT,
        headers=_IN_SCENARIO,
        errors=(409, 429),
    ),
    Operation(
        "POST",
        "/reef/records/batch",
        "Store several, all or none.",
        _AREA,
        {200: obj({"records": array(ref("Receipt")), "new": INTEGER})},
        obj({"records": array(_IMPORT, least=1, most=1000)}),
        headers=_IN_SCENARIO,
        errors=(409, 429),
    ),
    Operation(
        "POST",
        "/reef/import",
        "Conversations that were held elsewhere, as records; what is there already is only counted.",
        _AREA,
        {
            200: obj(
                {
                    "scenario": TEXT,
                    "sessions": INTEGER,
                    "new": INTEGER,
                    "present": INTEGER,
                    "reports": INTEGER,
                    "refused": array(obj({"agent_record_id": TEXT, "message": TEXT})),
                }
            )
        },
        obj({"sessions": array(_SESSION, least=1, most=1000)}),
        headers=_IN_SCENARIO,
        errors=(404, 409, 429),
    ),
    Operation(
        "POST",
        "/reef/train",
        "What the user tells the scenario's recipe in words.",
        _AREA,
        {200: obj({"agent_record_id": TEXT, "scenario": TEXT, "request_type": TEXT, "page_path": TEXT})},
        obj({"text": text(4000, least=1)}, {"agent_record_id": nullable(text(200))}),
        headers=_IN_SCENARIO,
        errors=(404, 409, 429),
    ),
    Operation("GET", "/reef/scenarios", "All that serve.", _AREA, {200: obj({"scenarios": array(ref("Scenario"))})}),
    Operation(
        "POST",
        "/reef/scenarios",
        "A new scenario; 200 if it stands already.",
        _AREA,
        {200: ref("Scenario"), 201: ref("Scenario")},
        obj({"name": text(100, least=1)}, {"release_id": nullable(TEXT), "model": nullable(TEXT)}),
        errors=(409, 429),
    ),
    Operation("GET", _SCENARIO, "One of them.", _AREA, {200: ref("Scenario")}),
    Operation(
        "DELETE",
        _SCENARIO,
        "It serves no more; its experience and releases stay.",
        _AREA,
        {200: obj({"name": TEXT, "archived": {"type": "boolean"}})},
        owner=True,
    ),
    Operation(
        "POST",
        f"{_SCENARIO}/update",
        "How it learns from now on; `model` can only be the served one.",
        _AREA,
        {200: _CONTRACT},
        obj({}, optionals({"mode": {"type": "string", "enum": ["auto", "manual", "off"]}, "model": TEXT})),
        errors=(409, 422, 503),
        owner=True,
    ),
    Operation("GET", f"{_SCENARIO}/contract", "What its recipe is, and what it takes as feedback.", _AREA, {200: _CONTRACT}),
    Operation(
        "GET",
        f"{_SCENARIO}/commits",
        "The operation log, newest first.",
        _AREA,
        {200: obj({"commits": array(OBJECT), "next": nullable(INTEGER)})},
        query={"limit": integer(1, 200), "before": _CURSOR},
    ),
    Operation(
        "GET",
        f"{_SCENARIO}/records",
        "The stream in order, page by page.",
        _AREA,
        {200: obj({"records": array(ref("Record"))})},
        query={"after_sequence": _CURSOR, "limit": integer(1, 100), "request_type": TEXT},
    ),
    Operation("GET", f"{_SCENARIO}/records/{{record}}", "One record.", _AREA, {200: ref("Record")}),
    Operation(
        "GET",
        f"{_SCENARIO}/export",
        "Its sessions as JSON lines that other programs read; `summary` adds a last line that says that nothing is missing.",
        _AREA,
        {200: OBJECT},
        query={
            "format": {"type": "string", "enum": ["openai", "sharegpt", "kto", "dpo", "atif", "records"]},
            "session": text(200),
            "since": {"type": "number", "minimum": 0, "exclusiveMaximum": 1e11},
            "good_only": {"type": "boolean"},
            "summary": {"type": "boolean"},
        },
        media="application/x-ndjson",
    ),
    Operation(
        "GET",
        f"{_SCENARIO}/sessions",
        "Newest first; `q` searches.",
        _AREA,
        {200: obj({"sessions": array(ref("Session")), "next": nullable(INTEGER)})},
        query={"limit": integer(1, 200), "before": _CURSOR, "q": text(1000)},
    ),
    Operation(
        "GET",
        f"{_SCENARIO}/sessions/{{session}}",
        "One session with its turns: all, `limit` from the place `from` on, or the last `limit`.",
        _AREA,
        {200: ref("Session")},
        query={"limit": integer(1, 1000), "from": _CURSOR, "messages": {"type": "string", "enum": ["all"]}},
    ),
    Operation(
        "POST",
        f"{_SCENARIO}/forget",
        "Erase a session or a record, and name the releases that hold it or were trained on it.",
        _AREA,
        {
            200: obj(
                {
                    "scenario": TEXT,
                    "records": array(TEXT),
                    "reports": array(TEXT),
                    "releases": array(obj({"scenario": TEXT, "release_id": TEXT, "trained": BOOLEAN})),
                    "forgotten": BOOLEAN,
                },
                {"session": nullable(TEXT), "runs": array(TEXT), "copies": array(TEXT), "head": nullable(TEXT)},
            )
        },
        obj({}, {"session": nullable(TEXT), "record": nullable(TEXT), "dry_run": BOOLEAN, "retire": BOOLEAN}),
        errors=(409, 422, 429, 503),
        owner=True,
    ),
    Operation(
        "POST",
        f"{_SCENARIO}/sessions/{{session}}/update",
        "Let a session that is under way take the release that serves now.",
        _AREA,
        {200: obj({"session": TEXT, "release_id": nullable(TEXT)})},
    ),
)
