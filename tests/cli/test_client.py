"""What a person reads when the daemon answers, refuses, breaks or is another version."""

from __future__ import annotations

import json
import os

from daemon import __version__
from daemon.paths import Home

from .conftest import StandIn, looks_like_a_daemon


def test_the_owner_asks_with_the_owners_token(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/status", {"version": __version__, "scenarios": []})
    assert reef("status").code == 0
    headers = daemon.asked[0][3]
    assert headers["authorization"] == "Bearer reef-owner-secret"
    assert headers["host"].startswith("127.0.0.1:")


def test_the_daemons_sentence_and_hint_are_shown(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/status", {"error": {"code": "x", "message": "The engine is not there.", "hint": "reef logs"}}, 503)
    result = reef("status")
    assert (result.code, result.err) == (1, "Error: The engine is not there.\n  reef logs\n")


def test_an_answer_that_is_no_json_is_a_sentence(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/status", "<html>")
    result = reef("status")
    assert result.code == 1
    assert "cannot be read" in result.err
    daemon.answer("GET /reef/status", "<html>", 502)
    assert "status 502" in reef("status").err


def test_an_empty_name_is_refused_and_a_redirection_is_no_answer(reef, daemon: StandIn) -> None:
    for command in (("show", ""), ("session", ""), ("diff", "r1", "")):
        result = reef(*command)
        assert (result.code, result.out) == (1, ""), command
        assert "empty" in result.err
    daemon.answer("GET /reef/status", "", 307)
    assert "status 307" in reef("status").err


def test_a_daemon_of_another_version_is_noted(reef, daemon: StandIn, home) -> None:
    facts = json.loads(home.lock.read_text())
    home.lock.write_text(json.dumps({**facts, "version": "0.0.1"}))
    daemon.answer("GET /reef/status", {"scenarios": []})
    result = reef("status")
    assert result.code == 0
    assert "reef down && reef up" in result.err


def lock_of(home: Home, pid: int) -> None:
    home.owner_token.parent.mkdir(parents=True, exist_ok=True)
    home.owner_token.write_text("t")
    home.lock.write_text(json.dumps({"pid": pid, "host": "127.0.0.1", "port": 1, "version": __version__, "started_at": 0}))


def test_a_lock_file_that_a_crash_left_counts_as_no_daemon(reef, home: Home) -> None:
    dead = looks_like_a_daemon()
    dead.kill()
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    lock_of(home, dead.pid)
    assert "No daemon runs" in reef("status").err  # it has ended, and nobody has reaped it: in a container, for ever
    dead.wait()
    assert "No daemon runs" in reef("status").err
    home.lock.write_text("")
    assert "No daemon runs" in reef("status").err


def test_a_daemon_that_does_not_listen_is_named(reef, home: Home) -> None:
    process = looks_like_a_daemon()
    lock_of(home, process.pid)
    try:
        result = reef("status")
    finally:
        process.kill()
        process.wait()
    assert result.code == 1
    assert f"process {process.pid}" in result.err


def test_the_process_that_has_the_number_of_a_crashed_daemon_is_no_daemon_and_left_alone(reef, home: Home) -> None:
    """The lock names this very test process; `reef up` would start a daemon, and not say that one runs."""
    lock_of(home, os.getpid())
    assert "No daemon runs" in reef("status").err
    result = reef("down")
    assert (result.code, result.out) == (0, "No daemon runs.\n")
