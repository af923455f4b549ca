"""Releases, the harness, runs, models and the daemon's state."""

from __future__ import annotations

from daemon.openapi.operation import Operation
from daemon.openapi.schema import ANY, BOOLEAN, INTEGER, NUMBER, OBJECT, TEXT, array, integer, nullable, obj, one_of, optionals, ref, text
from daemon.records import JSONObject

_SCENARIO = "/reef/scenarios/{scenario}"
_MOVE = obj({"release_id": text(20, least=1)}, {"expected_head": nullable(TEXT)})
_PROMOTE = obj({"release_id": text(20, least=1)}, {"expected_head": nullable(TEXT), "confirmed": array(TEXT)})
_IN_SCENARIO: dict[str, JSONObject] = {"x-reef-scenario": {**text(100), "description": "The default one otherwise."}}
_PIN = obj({"release_id": TEXT, "pinned": BOOLEAN, "changed": BOOLEAN, "pins": array(TEXT)})
_PROPOSED = obj({"proposal_id": nullable(TEXT), "admitted": BOOLEAN, "reason": TEXT})
_ITEM = obj(
    {"kind": TEXT, "what": TEXT, "why": TEXT, "size_bytes": INTEGER, "files": INTEGER, "releases": array(TEXT)},
    {"scenario": nullable(TEXT)},
)
_MOVING = (404, 409, 422, 429, 503)

_RELEASE_ID: JSONObject = {"type": "string", "pattern": "^r[1-9][0-9]{0,8}$"}

_RELEASES = (
    Operation(
        "GET",
        f"{_SCENARIO}/releases",
        "Newest first: the chain, and what is held, was rejected or was promoted since.",
        "Releases",
        {200: obj({"releases": array(ref("Release")), "next": nullable(TEXT)})},
        query={"limit": integer(1, 1000), "before": _RELEASE_ID},
    ),
    Operation(
        "GET",
        f"{_SCENARIO}/releases/{{release}}",
        "Everything that pins a release, and the sessions that it learned from; `head` is the one that serves, `head~1` the one before.",
        "Releases",
        {200: ref("Release")},
        errors=(422,),
    ),
    Operation(
        "GET",
        f"{_SCENARIO}/releases/{{before}}/diff/{{after}}",
        "Two releases side by side, word by word and task by task.",
        "Releases",
        {200: ref("Comparison")},
        query={"replies": one_of("true", "false")},
        errors=(422,),
    ),
    Operation(
        "GET",
        f"{_SCENARIO}/why",
        "Which releases brought or removed the line that holds `text`, or the LoRA, and the sessions behind it.",
        "Releases",
        {
            200: obj(
                {
                    "text": TEXT,
                    "match": one_of("exact", "near", "lora", "none"),
                    "serving": BOOLEAN,
                    "releases": array(ref("LineEvent")),
                    "nearest": array(obj({"path": TEXT, "line": TEXT, "release_id": TEXT, "likeness": NUMBER})),
                }
            )
        },
        query={"text": text(4000, least=1)},
        errors=(422,),
    ),
    Operation(
        "POST",
        f"{_SCENARIO}/promote",
        "Let a held candidate serve; where it has aged, a run evaluates it on what serves now."
        " 409 `unconfirmed`: `findings` must be `confirmed` by their ids.",
        "Releases",
        {
            200: ref("Release"),
            202: obj({"release_id": TEXT, "compared_with": TEXT, "head": TEXT, "sentence": TEXT, "run": ref("Run")}),
        },
        _PROMOTE,
        errors=_MOVING,
        owner=True,
    ),
    Operation(
        "POST",
        f"{_SCENARIO}/rollback",
        "Serve an earlier release again.",
        "Releases",
        {200: ref("Release")},
        _MOVE,
        errors=_MOVING,
        owner=True,
    ),
    Operation(
        "POST",
        f"{_SCENARIO}/undo",
        "Revert the last operation.",
        "Releases",
        {200: ref("Release")},
        obj({}, {"expected_head": nullable(TEXT)}),
        errors=_MOVING,
        owner=True,
    ),
    Operation(
        "POST",
        f"{_SCENARIO}/releases/{{release}}/dismiss",
        "Give a held candidate up for good: its trace stays, its weights go.",
        "Releases",
        {200: ref("Release")},
        errors=_MOVING,
        owner=True,
    ),
    Operation("GET", f"{_SCENARIO}/pins", "What is pinned, newest first.", "Releases", {200: obj({"pins": array(TEXT)})}),
    Operation(
        "POST",
        f"{_SCENARIO}/pins",
        "Keep a release, weights included, whatever is collected.",
        "Releases",
        {200: _PIN},
        obj({"release_id": text(20, least=1)}),
        errors=_MOVING,
        owner=True,
    ),
    Operation("DELETE", f"{_SCENARIO}/pins/{{release}}", "Take a pin off.", "Releases", {200: _PIN}, errors=_MOVING, owner=True),
    Operation(
        "POST",
        "/reef/gc",
        "Make room: weights of old releases, and what nothing refers to; with `dry_run` say what could go.",
        "Releases",
        {200: obj({"dry_run": BOOLEAN, "freed_bytes": INTEGER, "items": array(_ITEM)})},
        obj({}, {"dry_run": BOOLEAN}),
        errors=(422, 429, 503),
        owner=True,
    ),
)

_HARNESS = (
    Operation(
        "GET",
        "/reef/harness",
        "The files of the head, or of `release_id`.",
        "Harness",
        {
            200: obj(
                {"release_id": TEXT, "content_id": TEXT, "parent_release_id": nullable(TEXT), "files": OBJECT},
                {"evaluation": nullable(OBJECT)},
            )
        },
        query={"release_id": TEXT, "version": TEXT},
        headers=_IN_SCENARIO,
        errors=(404,),
    ),
    Operation(
        "GET",
        "/reef/harness/versions",
        "The catalogue, as reef-client asks for it.",
        "Harness",
        {200: obj({"versions": array(OBJECT)})},
        headers=_IN_SCENARIO,
        errors=(404,),
    ),
    Operation(
        "GET",
        "/reef/harness/changes",
        "What an agent that has the release `since` installed would get by an update, in one line.",
        "Harness",
        {
            200: obj(
                {
                    "scenario": TEXT,
                    "since": nullable(TEXT),
                    "head": TEXT,
                    "line": TEXT,
                    "harness_changed": BOOLEAN,
                    "held": array(TEXT),
                    "model": TEXT,
                    "context_tokens": INTEGER,
                }
            )
        },
        query={"since": TEXT},
        headers=_IN_SCENARIO,
        errors=(404,),
    ),
    Operation(
        "GET",
        "/reef/harness/install",
        "A shell script that installs an agent on the daemon's machine: pipe it into a shell.",
        "Harness",
        {200: TEXT},
        query={"adapter": TEXT, "release_id": TEXT},
        errors=(400, 404),
        media="text/x-shellscript",
    ),
    Operation(
        "POST",
        f"{_SCENARIO}/harness",
        "Publish a person's changes by hand, merged onto what serves; what the guard finds must be confirmed first.",
        "Harness",
        {200: obj({"published": BOOLEAN, "head": TEXT, "findings": array(OBJECT)}, {"files": array(OBJECT), "release": ref("Release")})},
        obj(
            {"files": OBJECT},
            {"base_release_id": TEXT, "expected_head": TEXT, "note": TEXT, "confirmed": array(TEXT), "dry_run": BOOLEAN},
        ),
        errors=_MOVING,
        owner=True,
    ),
    Operation(
        "POST",
        "/reef/harness/proposals",
        "A running agent proposes changes; they wait as a held candidate (201), or are refused with the `reason`.",
        "Harness",
        {200: _PROPOSED, 201: _PROPOSED},
        obj(
            {
                "mutations": array(
                    obj({"kind": one_of("create", "update", "remove"), "entry": text(200, least=1)}, {"text": TEXT, "reason": text(500)})
                ),
                "reason": text(500, least=1),
                "session": text(128, least=1),
            }
        ),
        headers=_IN_SCENARIO,
        errors=(404, 429, 503),
    ),
    Operation(
        "GET",
        "/reef/harness/proposals",
        "What agents proposed and waits for a person, newest first.",
        "Harness",
        {200: obj({"proposals": array(OBJECT)})},
        headers=_IN_SCENARIO,
        errors=(404,),
    ),
    Operation("GET", "/reef/harness/adapters", "Which agents can be installed.", "Harness", {200: obj({"adapters": array(TEXT)})}),
    Operation(
        "GET",
        "/reef/harness/releases",
        "The catalogue, oldest first.",
        "Harness",
        {200: obj({"releases": array(ref("Release"))})},
        headers=_IN_SCENARIO,
        errors=(404,),
    ),
)

_RUNS = (
    Operation(
        "POST",
        f"{_SCENARIO}/runs",
        "Start a recipe now.",
        "Runs",
        {201: ref("Run")},
        obj({}, optionals({"recipe": text(500), "settings": OBJECT, "dry_run": BOOLEAN, "seed": integer(0, 2**31 - 1)})),
        errors=(404, 409, 422, 429, 503),
        owner=True,
    ),
    Operation(
        "GET",
        f"{_SCENARIO}/runs",
        "Newest first; `before` is the `next` of the page before.",
        "Runs",
        {200: obj({"runs": array(ref("Run")), "next": nullable(NUMBER)})},
        query={"limit": integer(1, 200), "before": {"type": "number", "minimum": 0, "exclusiveMaximum": 1e12}},
    ),
    Operation(
        "GET",
        "/reef/recipes",
        "Which recipes are installed.",
        "Runs",
        {200: obj({"recipes": array(obj({"name": TEXT, "path": TEXT}))})},
    ),
    Operation("GET", f"{_SCENARIO}/runs/{{run}}", "One run.", "Runs", {200: ref("Run")}),
    Operation("DELETE", f"{_SCENARIO}/runs/{{run}}", "Cancel it.", "Runs", {200: ref("Run")}, errors=(409,), owner=True),
    Operation(
        "GET",
        f"{_SCENARIO}/runs/{{run}}/events",
        "Follow a run by server-sent events; `id` is the cursor.",
        "Runs",
        {200: TEXT},
        query={"after": integer(0, (1 << 63) - 1)},
        headers={"last-event-id": {"type": "string", "pattern": "^[0-9]{1,19}$"}},
        media="text/event-stream",
    ),
)

_STATE = (
    Operation(
        "GET",
        "/reef/status",
        "What serves, what learns, what is queued, what failed.",
        "State",
        {
            200: obj(
                {
                    "version": TEXT,
                    "pid": INTEGER,
                    "started_at": NUMBER,
                    "engine": obj({"kind": TEXT, "state": TEXT, "model": TEXT, "context_tokens": INTEGER}),
                    "in_flight": INTEGER,
                    "scenarios": array(OBJECT),
                    "agents": array(obj({"name": TEXT, "version": TEXT, "release_id": TEXT, "changed": array(TEXT), "notes": array(TEXT)})),
                    "disk": OBJECT,
                    "warnings": array(TEXT),
                }
            )
        },
    ),
    Operation("GET", "/metrics", "Prometheus text.", "State", {200: TEXT}, media="text/plain"),
    Operation("GET", "/openapi.json", "This description.", "State", {200: OBJECT}),
    Operation(
        "GET",
        "/reef/models",
        "Every model on this machine.",
        "Models",
        {200: obj({"serves": TEXT, "loading": ANY, "models": array(OBJECT)})},
    ),
    Operation(
        "POST",
        "/reef/models/use",
        "Serve another model; answers when it does.",
        "Models",
        {200: obj({"model": TEXT, "name": TEXT, "context_tokens": INTEGER, "releases": array(ref("Release")), "warnings": array(TEXT)})},
        obj({"name": text(4096, least=1)}),
        errors=(404, 409, 422, 429, 503),
        owner=True,
    ),
)

RELEASES: tuple[Operation, ...] = (*_RELEASES, *_HARNESS, *_RUNS, *_STATE)
