"""`reef promote` of a candidate that has aged, `reef pin`, and `reef releases --log`: what a person reads, and what a program gets."""

from __future__ import annotations

import json
from collections.abc import Callable

from daemon.records import JSONObject
from tests.cli.conftest import Result, StandIn

S = "/reef/scenarios/default"
SENTENCE = "r2 was evaluated against r1; r4 serves now. Its changes fit r4 and are evaluated there."


def aged(daemon: StandIn, **run: object) -> None:
    """`reef promote r2` starts a run that ends as `run` says."""
    ended: JSONObject = {"run_id": "run_1", "status": "done", "release_id": None, **run}  # type: ignore[dict-item]
    daemon.answer(f"GET {S}/releases/head", {"release_id": "r4"})
    started: JSONObject = {"release_id": "r2", "compared_with": "r1", "head": "r4", "sentence": SENTENCE, "run": {"run_id": "run_1"}}
    daemon.answer(f"POST {S}/promote", started, 202)
    daemon.answer(f"GET {S}/runs/run_1/events", 'id: 1\ndata: {"type": "phase", "phase": "replay", "detail": "r2 on r4"}\n\n')
    daemon.answer(f"GET {S}/runs/run_1", ended)
    daemon.answer(f"GET {S}/releases/r5", {"release_id": "r5", "change": "+1 rule"})


def test_an_aged_candidate_that_is_better_serves(reef: Callable[..., Result], daemon: StandIn) -> None:
    aged(daemon, verdict="promoted", sentence="7 wins (r2 on r4)", release_id="r5")
    told = reef("promote", "r2")
    assert told.code == 0
    first, *_, last, hint = told.out.splitlines()
    assert first == SENTENCE and last == "r5 serves in 'default' now (r4 before): +1 rule" and "reef undo" in hint
    assert "7 wins (r2 on r4)" in told.out
    as_json = reef("promote", "r2", "--json")
    assert json.loads(as_json.out)["release_id"] == "r5" and SENTENCE in as_json.err


def test_one_that_is_not_leaves_what_serves(reef: Callable[..., Result], daemon: StandIn) -> None:
    aged(daemon, verdict="held", sentence="not enough evidence (r2 on r4)", release_id="r6")
    told = reef("promote", "r2")
    assert told.code == 0 and "held: not enough evidence" in told.out
    assert "r4 serves as before. Let the two" in told.out and "reef promote r6" in told.out
    aged(daemon, status="failed", verdict="", sentence="r2 cannot be evaluated again", error="x")
    told = reef("promote", "r2")
    assert told.code == 1 and "failed: r2 cannot be evaluated again" in told.out


def test_changes_that_do_not_fit_are_shown_line_by_line(reef: Callable[..., Result], daemon: StandIn) -> None:
    daemon.answer(f"GET {S}/releases/head", {"release_id": "r4"})
    message = "r2 was evaluated against r1; r4 serves now, and both changed the same:\n  AGENTS.md, line 1: r2 says “a”, r4 says “b”"
    daemon.answer(f"POST {S}/promote", {"error": {"code": "conflict", "message": message, "hint": "Nothing has changed."}}, 409)
    told = reef("promote", "r2")
    assert told.code == 1 and told.err.splitlines()[1] == "  AGENTS.md, line 1: r2 says “a”, r4 says “b”"


def test_a_pin_is_set_and_taken_off_and_doing_it_twice_is_no_error(reef: Callable[..., Result], daemon: StandIn) -> None:
    daemon.answer(f"POST {S}/pins", {"release_id": "r4", "pinned": True, "changed": True, "pins": ["r4", "r2"]})
    told = reef("pin", "r4")
    assert told.out.splitlines() == ["r4 is pinned: it is kept whole.", "  Pinned in 'default': r4, r2"]
    assert daemon.asked[-1][2] == {"release_id": "r4"}
    daemon.answer(f"DELETE {S}/pins/r4", {"release_id": "r4", "pinned": False, "changed": False, "pins": []})
    told = reef("pin", "r4", "--remove")
    assert (told.code, told.out) == (0, "r4 is not pinned; nothing changed.\n")
    assert json.loads(reef("pin", "r4", "--remove", "--json").out)["changed"] is False


def test_the_operation_log_says_who_did_what_and_where_the_head_went(reef: Callable[..., Result], daemon: StandIn) -> None:
    rows: list[JSONObject] = [
        {"id": 9, "operation": "unpin", "before": "r4", "after": "r4", "detail": {"release_id": "r2"}},
        {"id": 8, "operation": "gc", "before": "r4", "after": "r4", "detail": {"collected": ["r2", "r3"], "freed_bytes": 9}},
        {
            "id": 7,
            "operation": "settings",
            "before": "r4",
            "after": "r4",
            "detail": {"setting": "learn.mode", "before": "auto", "after": "off"},
        },
        {"id": 6, "operation": "rollback", "before": "r3", "after": "r4", "detail": {"change": "back to r1: \x1b[2J−1 rule"}},
        {"id": 5, "operation": "held", "before": "r3", "after": "r5", "detail": {"change": "+1 rule", "verdict": "held: 3 wins"}},
        {"id": 4, "operation": "forget", "before": "r2", "after": "r3", "detail": {"records": 2, "files": 1}},
        {"id": 3, "operation": "creation", "before": None, "after": "r1", "detail": {"repaired": True}},
    ]
    daemon.answer(f"GET {S}/commits", {"commits": [{"at": 0, "who": "owner", **row} for row in rows], "next": 3})
    told = reef("releases", "--log", "-n", "7", "--before", "10")
    assert told.code == 0 and "before=10" in daemon.asked[-1][1] and "limit=7" in daemon.asked[-1][1]
    words = [" ".join(line.split()[4:]) for line in told.out.splitlines()[1:8]]  # without number, age and who
    assert words == [
        "unpin r4 r2",
        "gc r4 weights of r2, r3",
        "settings r4 learn.mode: auto → off",
        "rollback r3 → r4 back to r1: [2J−1 rule",
        "held r3 r5 · +1 rule · held: 3 wins",
        "forget r2 → r3 2 records, 1 files of releases",
        "creation r1 added after a crash, from what the releases say",
    ]
    assert "Earlier ones: reef releases --log --before 3" in told.out
    assert json.loads(reef("releases", "--log", "--json").out)["next"] == 3


def test_a_candidate_is_dismissed_once_somebody_says_yes(reef: Callable[..., Result], daemon: StandIn) -> None:
    daemon.answer(f"GET {S}/releases/r5", {"release_id": "r5", "state": "held", "line": "+1 rule \x1b[2J"})
    told = reef("dismiss", "r5")
    assert told.code == 1 and "+1 rule" in told.err and "\x1b" not in told.err and "--yes" in told.err and "reef show r5" in told.err
    assert daemon.asked[-1][0] == "GET", "nothing is asked of the daemon without a yes"
    daemon.answer(f"POST {S}/releases/r5/dismiss", {"release_id": "r5", "state": "rejected"})
    told = reef("dismiss", "r5", "--yes")
    assert told.code == 0 and told.out.startswith("r5 is dismissed.")
    assert json.loads(reef("dismiss", "r5", "--yes", "--json").out)["state"] == "rejected"
    daemon.answer(f"GET {S}/releases/r4", {"release_id": "r4", "state": "published"})
    told = reef("dismiss", "r4", "--yes")
    assert told.code == 1 and "r4 is not held" in told.err
