"""What a person reads when the daemon answers, refuses, breaks or is another version."""

from __future__ import annotations

import json
import os

from daemon import __version__

from .conftest import StandIn


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


def test_a_daemon_of_another_version_is_noted(reef, daemon: StandIn, home) -> None:
    facts = json.loads(home.lock.read_text())
    home.lock.write_text(json.dumps({**facts, "version": "0.0.1"}))
    daemon.answer("GET /reef/status", {"scenarios": []})
    result = reef("status")
    assert result.code == 0
    assert "reef down && reef up" in result.err


def test_a_lock_file_that_a_crash_left_counts_as_no_daemon(reef, home) -> None:
    home.root.mkdir(parents=True)
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    home.lock.write_text(json.dumps({"pid": dead, "host": "127.0.0.1", "port": 1, "version": "1", "started_at": 0}))
    assert "No daemon runs" in reef("status").err
    home.lock.write_text("")
    assert "No daemon runs" in reef("status").err


def test_a_daemon_that_does_not_listen_is_named(reef, home) -> None:
    home.owner_token.parent.mkdir(parents=True)
    home.owner_token.write_text("t")
    home.lock.write_text(json.dumps({"pid": os.getpid(), "host": "127.0.0.1", "port": 1, "version": __version__, "started_at": 0}))
    result = reef("status")
    assert result.code == 1
    assert f"process {os.getpid()}" in result.err


def test_down_leaves_a_stranger_alone(reef, daemon: StandIn) -> None:
    """The lock names this very test process, as if the number had gone to it after a crash."""
    result = reef("down")
    assert result.code == 1
    assert "no Reef daemon" in result.err
