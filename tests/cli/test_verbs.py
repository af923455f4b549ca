"""What the verbs ask the daemon for, and what a person then reads."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from .conftest import StandIn


def test_status_shows_what_serves_and_where_to_point_an_editor(reef, daemon: StandIn) -> None:
    daemon.answer(
        "GET /reef/status",
        {
            "version": "0.1.0",
            "base_url": "http://127.0.0.1:8900",
            "engine": {
                "model": "smollm2",
                "state": "ready",
                "active": 1,
                "queued": 0,
                "context_tokens": 8192,
                "tool_format": "hermes",
                "cache": {"reused_share": 0.63, "held_bytes": 2_000_000, "limit_bytes": 1_000_000_000, "misses": {"evicted": 2}},
            },
            "learn": {"mode": "auto", "recipe": "sft"},
            "scenarios": [{"name": "default", "release_id": "r2", "change": "+8 demonstrations", "sessions": 3, "held": ["r3"]}],
            "warnings": ["engine: changed; a restart is needed"],
        },
    )
    result = reef("status")
    for part in ("http://127.0.0.1:8900/v1", "smollm2", "r2", "+8 demonstrations", "a restart is needed", "reef diff head r3"):
        assert part in result.out
    lines = [line.split(maxsplit=1) for line in result.out.splitlines()]
    assert ["Model", "smollm2"] in lines, "what an editor asks for stands by itself"
    assert "8,192 tokens · tool calls as hermes" in result.out
    assert "63 % of prompt tokens reused · 2.0 MB of 1.0 GB held · read again: evicted 2" in result.out
    assert json.loads(reef("status", "--json").out)["version"] == "0.1.0"


@pytest.mark.parametrize(
    ("arguments", "route", "release"),
    [(["rollback", "r1"], "rollback", "r1"), (["promote", "r3"], "promote", "r3"), (["undo"], "undo", None)],
)
def test_moving_the_head_sends_the_head_that_was_seen(reef, daemon: StandIn, arguments, route, release) -> None:
    daemon.answer("GET /reef/scenarios/default/releases/head", {"release_id": "r2"})  # however many candidates came after it
    daemon.answer(f"POST /reef/scenarios/default/{route}", {"release_id": "r4", "change": "as r1"})
    result = reef(*arguments)
    assert result.code == 0
    assert "r4 serves in 'default' now (r2 before): as r1" in result.out
    method, _, body, headers = daemon.asked[-1]
    assert (method, body["expected_head"], body.get("release_id")) == ("POST", "r2", release)
    assert headers["content-type"] == "application/json"


def test_good_on_a_receipt_with_a_note(reef, daemon: StandIn) -> None:
    daemon.answer("POST /reef/report", {"agent_record_id": "rep_1", "scenario": "pi", "request_type": "report"})
    assert reef("good", "rec_1", "just", "right", "-s", "pi").code == 0
    _, _, body, headers = daemon.asked[-1]
    assert body == {"score": 1.0, "references": ["rec_1"], "feedback": {"note": "just right"}}
    assert headers["x-reef-scenario"] == "pi"


def test_bad_on_the_latest_reply_with_a_correction(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/scenarios/default/sessions", {"sessions": [{"id": "ses_1", "last_receipt": "rec_9"}]})
    daemon.answer("POST /reef/report", {"agent_record_id": "rep_1"})
    result = reef("bad", "--last", "--correction", "fix: it")
    assert "Noted for rec_9: bad, with a correction." in result.out
    assert daemon.asked[-1][2] == {"score": -1.0, "references": ["rec_9"], "feedback": {"correction": "fix: it"}}


def test_last_without_any_reply_says_so(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/scenarios/default/sessions", {"sessions": []})
    daemon.answer("GET /reef/status", {"scenarios": [{"name": "default", "records": 0}]})
    result = reef("good", "--last")
    assert result.code == 1
    assert "has no reply yet" in result.err and "Ask something first" in result.err and "-s" not in result.err
    daemon.answer("GET /reef/status", {"scenarios": [{"name": "default", "records": 0}, {"name": "pi", "records": 3}]})
    assert "There are replies in pi: add -s pi" in reef("bad", "--last").err


def test_sessions_are_searched_and_cannot_steer_the_terminal(reef, daemon: StandIn) -> None:
    rows = [{"id": "ses_1", "title": "hi \x1b[2J there", "turns": 2, "releases": ["r1", "r2"], "updated_at": 0}]
    daemon.answer("GET /reef/scenarios/default/sessions", {"sessions": rows})
    result = reef("sessions", "-q", "a b&c", "-n", "5")
    assert "\x1b" not in result.out
    assert "r1, r2" in result.out
    assert parse_qs(urlsplit(daemon.asked[-1][1]).query) == {"q": ["a b&c"], "limit": ["5"]}


def _turn(number: int, added: list[dict], said: str, **more: object) -> dict:
    plain = {"receipt": f"rec_{number}", "release_id": "r1", "kind": "turn", "step": "continue", "follows": f"rec_{number - 1}", "line": 0}
    return {**plain, "added": added, "reply": {"content": said}, "signals": [], "reports": [], **more}


def test_a_session_is_shown_turn_by_turn_without_repeating(reef, daemon: StandIn) -> None:
    turns = [
        _turn(1, [{"role": "user", "content": "one"}], "uno", step="begin", follows=None),
        _turn(
            2,
            [{"role": "user", "content": [{"type": "text", "text": "two"}]}],
            "dos\x07",
            note="A call could not be read.\x07",
            cache_miss="evicted",
            signals=["objected", "tool_failed"],
            reports=[{"score": 1.0}, {"score": None, "feedback": {"correction": "tres\x07", "note": "off by one"}}],
        ),
    ]
    daemon.answer("GET /reef/scenarios/default/sessions/ses_1", {"id": "ses_1", "turns": turns, "asides": 0, "releases": ["r1", "r2"]})
    out = reef("session", "ses_1").out
    assert out.splitlines()[0] == "ses_1 · 2 turns · r1, r2"
    assert out.count("  one") == 1
    assert out.count("  uno") == 1
    assert "  two" in out
    assert "\x07" not in out
    assert "rec_2" in out
    assert out.count("read again from the start: evicted\n") == 1
    assert "└ A call could not be read. \n" in out
    assert "└ signals: objected, tool failed\n" in out
    assert "report: score 1\n" in out
    assert "report: correction: tres  · note: off by one\n" in out
    assert "──" not in out


def test_a_session_marks_what_does_not_simply_go_on_and_folds_what_is_long(reef, daemon: StandIn) -> None:
    long = "\n".join(f"line {number}" for number in range(100))
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "bash", "arguments": '{"command": "ls"}'}}]}
    turns = [
        _turn(1, [{"role": "user", "content": "Generate a title"}], "A title", kind="aside", step="begin"),
        _turn(2, [{"role": "system", "content": long}, {"role": "user", "content": "one"}], "", step="begin", reply=call),
        _turn(3, [{"role": "tool", "content": long}], "uno"),
        _turn(4, [], "uno again", step="retry", follows="rec_3"),
        _turn(5, [{"role": "user", "content": "other"}], "otra", step="branch", follows="rec_2", line=1),
        _turn(6, [{"role": "user", "content": "back"}], "vuelta", follows="rec_4", line=0),
        _turn(7, [{"role": "user", "content": "summary"}], "sum", step="compaction", follows="rec_6"),
        _turn(8, [{"role": "user", "content": "a subagent"}], "sub", step="begin", follows=None, line=2),
    ]
    daemon.answer("GET /reef/scenarios/default/sessions/ses_1", {"id": "ses_1", "turns": turns})
    out = reef("session", "ses_1").out
    assert "· aside rec_1: A title\n" in out and "Generate a title" not in out
    assert '→ bash({"command": "ls"})' in out
    assert "line 2\n" in out and "line 50" not in out and "more lines" in out and "--full" in out
    for mark in (
        "── the request of rec_3 again",
        "── branch: goes on from rec_2 with other words",
        "── goes on from rec_4",
        "── compaction: goes on from rec_6 with a shorter history",
        "── a new beginning",
    ):
        assert out.count(f"{mark}\n") == 1, mark
    full = reef("session", "ses_1", "--full").out
    assert full.count("line 50") == 2 and "more lines" not in full and "Generate a title" in full


def test_evolve_follows_the_run_and_names_the_next_step(reef, daemon: StandIn) -> None:
    path = "/reef/scenarios/default/runs"
    events = [
        {"type": "phase", "phase": "propose", "detail": "from 8 exchanges"},
        {"type": "step", "step": 1, "steps": 1, "loss": 0.5},
        {"type": "task", "split": "held-out", "done": 2, "total": 2},
        {"type": "probe", "rise": 0.031},
    ]
    stream = "".join(f"id: {number}\ndata: {json.dumps(event)}\n\n" for number, event in enumerate(events, 1))
    daemon.answer(f"POST {path}", {"run_id": "run_1"})
    daemon.answer(f"GET {path}/run_1/events", ": keep-alive\n\n" + stream)
    run = {"run_id": "run_1", "status": "done", "verdict": "held", "sentence": "not enough evidence: 3 wins, 1 loss", "release_id": "r5"}
    daemon.answer(f"GET {path}/run_1", run)
    result = reef("evolve", "--recipe", "demos", "--dry-run")
    assert daemon.asked[0][2] == {"dry_run": True, "recipe": "demos"}
    assert result.code == 0
    for part in ("from 8 exchanges", "step 1/1 · loss 0.5", "held-out task 2/2", "+3.1%"):
        assert part in result.err
    assert "held: not enough evidence: 3 wins, 1 loss · release r5" in result.out
    assert "reef promote r5" in result.out


def test_a_failed_run_is_code_1(reef, daemon: StandIn) -> None:
    path = "/reef/scenarios/default/runs"
    daemon.answer(f"POST {path}", {"run_id": "run_1"})
    daemon.answer(f"GET {path}/run_1/events", "")
    daemon.answer(f"GET {path}/run_1", {"status": "failed", "sentence": "the recipe raised KeyError"})
    result = reef("evolve")
    assert result.code == 1
    assert "failed: the recipe raised KeyError" in result.out


def test_a_run_that_had_too_little_to_learn_from_says_what_counts(reef, daemon: StandIn) -> None:
    path = "/reef/scenarios/default/runs"
    daemon.answer(f"POST {path}", {"run_id": "run_1"})
    daemon.answer(f"GET {path}/run_1/events", "")
    sentence = "not enough new experience yet; sft waits for 8 usable exchanges"
    daemon.answer(f"GET {path}/run_1", {"status": "done", "verdict": "nothing", "sentence": sentence})
    result = reef("evolve")
    assert result.code == 0 and f"nothing: {sentence}" in result.out
    assert "reef good --last" in result.out and "--correction" in result.out and "reef.batch_size" in result.out


def test_a_cancelled_run_says_it_once(reef, daemon: StandIn) -> None:
    run = {"run_id": "run_1", "status": "cancelled", "sentence": "cancelled", "started_at": 0, "ended_at": 1}
    daemon.answer("GET /reef/scenarios/default/runs", {"runs": [run]})
    assert reef("runs").out.splitlines()[1].endswith(" cancelled")
    assert "cancelled: cancelled" not in reef("runs").out


def test_runs_are_listed_and_cancelled(reef, daemon: StandIn) -> None:
    path = "/reef/scenarios/default/runs"
    runs = [
        {"run_id": "run_2", "status": "running", "phase": "train", "recipe": "sft"},
        {"run_id": "run_1", "ended_at": 1, "verdict": "held"},
    ]
    daemon.answer(f"GET {path}", {"runs": runs})
    daemon.answer(f"DELETE {path}/run_2", {})
    assert "train" in reef("runs").out
    assert "run_2 is cancelled" in reef("runs", "run_2", "--cancel").out
