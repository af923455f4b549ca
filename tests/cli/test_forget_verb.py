"""`reef forget`: it shows what would go, asks, and says what is left to do."""

from __future__ import annotations

import json

from tests.cli.conftest import StandIn

PATH = "POST /reef/scenarios/default/forget"
RELEASE = {"scenario": "default", "release_id": "r4", "state": "published", "trained": True, "files": 2, "serving": True}
PLAN = {
    "scenario": "default",
    "session": "ses_1",
    "records": ["rec_1", "rec_2"],
    "reports": ["rep_1"],
    "runs": ["run_1"],
    "repeated_in": [],
    "releases": [RELEASE],
    "copies": ["/home/me/.reef/experience.db.schema1.backup"],
    "forgotten": False,
    "head": None,
    "files": 0,
    "dropped": [],
    "scrubbed": False,
}
DONE = {**PLAN, "forgotten": True, "head": "r5", "files": 2, "dropped": ["r3"], "scrubbed": True}


def test_what_would_go_is_shown_and_nothing_is_asked_of_the_daemon_but_that(reef, daemon: StandIn) -> None:
    daemon.answer(PATH, PLAN)
    result = reef("forget", "ses_1", "--dry-run")
    assert result.code == 0
    for part in (
        "2 records and 1 report",
        "r4, serves now: its LoRA was trained on it; 2 files",
        "schema1.backup keeps a copy",
        "--retire",
    ):
        assert part in result.err, part
    assert [body for _, _, body, _ in daemon.asked] == [{"session": "ses_1", "dry_run": True}]


def test_without_a_person_it_needs_yes(reef, daemon: StandIn) -> None:
    daemon.answer(PATH, PLAN)
    result = reef("forget", "ses_1")
    assert result.code == 1 and "--yes" in result.err and len(daemon.asked) == 1


def test_with_yes_it_is_forgotten_and_what_serves_is_named(reef, daemon: StandIn) -> None:
    daemon.answer(PATH, DONE)
    result = reef("forget", "rec_1", "--yes", "--retire")
    assert result.code == 0 and daemon.asked[-1][2] == {"record": "rec_1", "retire": True}
    for part in ("2 records, 1 report", "r5 serves now", "2 files", "r3, held candidates"):
        assert part in result.out, part
    kept = reef("forget", "rec_1", "--yes")
    assert "What serves was trained on it" in kept.out
    assert json.loads(reef("forget", "rec_1", "--yes", "--json").out)["head"] == "r5"
