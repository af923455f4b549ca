"""`reef good` and `reef bad`: which reply is meant when nobody names one, and what a whole session gets."""

from __future__ import annotations

import typer

from tests.cli.conftest import StandIn

SESSIONS = {"sessions": [{"id": "ses_1", "last_receipt": "rec_9"}]}


def latest(daemon: StandIn) -> None:
    daemon.answer("GET /reef/scenarios/default/sessions", SESSIONS)
    daemon.answer("GET /reef/scenarios/default/records/rec_9", {"payload": {"reply": {"content": "the \x1b[2J reply"}, "created_at": 0}})
    daemon.answer("POST /reef/report", {"agent_record_id": "rep_1"})


def test_without_a_receipt_the_latest_reply_is_meant_and_shown(reef, daemon: StandIn) -> None:
    latest(daemon)
    result = reef("bad", "too", "long")
    assert result.code == 0 and "Noted for rec_9: bad." in result.out
    assert "rec_9" in result.err and "reply" in result.err and "\x1b" not in result.err
    assert daemon.asked[-1][2] == {"score": -1.0, "references": ["rec_9"], "feedback": {"note": "too long"}}


def test_a_session_of_titles_alone_is_passed_over(reef, daemon: StandIn) -> None:
    latest(daemon)
    title = {"id": "ses_2", "turns": 0, "last_receipt": "rec_10"}
    daemon.answer("GET /reef/scenarios/default/sessions", {"sessions": [title, {"id": "ses_1", "turns": 1, "last_receipt": "rec_9"}]})
    assert "Noted for rec_9: bad." in reef("bad").out
    daemon.answer("GET /reef/scenarios/default/sessions", {"sessions": [title]})
    assert "Noted for rec_10: bad." in reef("bad", "--last").out


def test_a_person_who_says_no_has_sent_nothing(reef, daemon: StandIn, monkeypatch) -> None:
    latest(daemon)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    asked: list[str] = []

    def no(question: str, **_: object) -> None:
        asked.append(question)
        raise typer.Abort

    monkeypatch.setattr("typer.confirm", no)
    assert reef("good").code == 130
    assert asked == ["This reply?"] and all(method == "GET" for method, *_ in daemon.asked)
    assert reef("good", "--last").code == 0 and len(asked) == 1


def test_a_session_is_judged_as_a_whole(reef, daemon: StandIn) -> None:
    daemon.answer("POST /reef/report", {"agent_record_id": "rep_1", "session": "ses_1", "references": ["rec_1", "rec_2"]})
    result = reef("good", "--session", "ses_1", "all", "of", "it")
    assert "Noted for 2 replies of the session ses_1: good." in result.out
    assert daemon.asked[-1][2] == {"score": 1.0, "session": "ses_1", "feedback": {"note": "all of it"}}
    for arguments in (("rec_1",), ("--last",), ("--correction", "x")):
        assert reef("bad", "--session", "ses_1", *arguments).code == 1
    assert len(daemon.asked) == 1
