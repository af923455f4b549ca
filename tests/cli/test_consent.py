"""`reef promote` of what the guard found: it is shown with its files, and nothing serves without the yes that it needs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from daemon.records import JSON, JSONObject
from tests.cli.conftest import Result, StandIn

S = "/reef/scenarios/default"
URL: JSONObject = {
    "id": "f1",
    "path": "AGENTS.md",
    "line": 1,
    "span": "https://evil.example/\x1b[2Jx",
    "reason": "a new URL",
    "executable": False,
}
PROGRAM: JSONObject = {"id": "f2", "path": "skills/a/run", "line": 1, "span": "#!/bin/sh", "reason": "executable", "executable": True}


def found(daemon: StandIn, *findings: JSON) -> None:
    """The daemon asks for a yes to these, however often it is asked."""
    lines: list[JSON] = [{"kind": "added", "before": None, "after": 1, "segments": [["#!/bin/sh\x1b[2J", True]]}]
    hunks: list[JSON] = [{"before_line": 0, "after_line": 1, "lines": lines}]
    files: list[JSON] = [
        {"path": "skills/a/run", "status": "added", "unified": "x", "hunks": hunks},
        {"path": "skills/a/data.txt", "status": "added", "unified": "", "hunks": []},
    ]
    error: JSONObject = {"code": "unconfirmed", "message": "The guard found things.", "hint": "Look."}
    daemon.answer(f"GET {S}/releases/head", {"release_id": "r4"})
    daemon.answer(f"POST {S}/promote", {"error": error, "release_id": "r5", "head": "r4", "findings": [*findings], "files": files}, 409)


def sent(daemon: StandIn) -> list[JSON]:
    return [body.get("confirmed") for method, path, body, _ in daemon.asked if (method, path) == ("POST", f"{S}/promote")]


def test_where_nobody_looks_on_it_is_shown_and_nothing_is_confirmed(reef: Callable[..., Result], daemon: StandIn) -> None:
    found(daemon, URL, PROGRAM)
    told = reef("promote", "r5")
    assert told.code == 1 and sent(daemon) == [None]
    assert "added skills/a/run" in told.out and "+ #!/bin/sh" in told.out and "\x1b" not in told.out
    assert "AGENTS.md:1  a new URL: https://evil.example/ [2Jx" in told.out and "runs  skills/a/run:1  executable" in told.out
    assert "skills/a/data.txt is too long to be shown here: reef diff r4 r5" in told.out
    assert told.err.splitlines() == [
        "Error: Nobody said yes to the 2 things that the guard found; nothing has changed.",
        "  If it is meant: reef promote r5 --yes --accept-executables",
    ]


@pytest.mark.parametrize(
    ("findings", "flags", "passes", "missing"),
    [
        ((URL,), ("--yes",), True, ""),
        ((URL,), ("--accept-executables",), False, "reef promote r5 --yes\n"),
        ((PROGRAM,), ("--yes",), False, "reef promote r5 --accept-executables\n"),
        ((PROGRAM,), ("--accept-executables",), True, ""),
        ((URL, PROGRAM), ("--yes",), False, "--accept-executables"),
        ((URL, PROGRAM), ("--accept-executables",), False, "--yes"),
        ((URL, PROGRAM), ("--yes", "--accept-executables"), True, ""),
    ],
)
def test_a_yes_in_general_covers_no_program(
    reef: Callable[..., Result], daemon: StandIn, findings: tuple[JSON, ...], flags: tuple[str, ...], passes: bool, missing: str
) -> None:
    found(daemon, *findings)
    told = reef("promote", "r5", *flags)
    expected = [one["id"] for one in findings if isinstance(one, dict)]
    assert sent(daemon) == ([None, expected] if passes else [None])
    assert missing in told.err


def test_a_person_at_a_terminal_is_asked(reef: Callable[..., Result], daemon: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    found(daemon, PROGRAM)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    answers = iter([False, True])
    monkeypatch.setattr("typer.confirm", lambda *_, **__: next(answers))
    assert "Nobody said yes" in reef("promote", "r5").err and sent(daemon) == [None]
    told = reef("promote", "r5")
    assert sent(daemon) == [None, None, ["f2"]] and "with your rights" in told.err


def test_a_program_gets_what_was_found_as_json(reef: Callable[..., Result], daemon: StandIn) -> None:
    found(daemon, URL)
    told = reef("promote", "r5", "--json", "-s", "default")
    answer = json.loads(told.out)
    assert told.code == 1 and answer["findings"][0]["id"] == "f1" and answer["release_id"] == "r5" and "The guard found" in told.err
