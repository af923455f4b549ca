"""The real pi and opencode mend a failing test with their shell, as each is set up: one session, and the signals of what happened in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.pi.runtime import PI_PACKAGE, PI_VERSION
from adapters.pi.settings import provider
from adapters.pi.window import fit_window
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import CONTEXT_TOKENS, MODEL, Body, Reply, Script, ScriptedServer
from tests.e2e.agents.test_opencode import run_opencode
from tests.e2e.agents.test_opencode import settings as opencode_settings
from tests.e2e.reef_home import ReefHome

pytestmark = MARKS
QUESTION, ANSWER = "Make the tests pass.", "All tests pass now."
MENDED = [("tool_failed", "tests_failed"), (), ("tests_passed", "tests_mended"), ("succeeded",)]


def mending() -> Script:
    """Run the tests, mend them, run them again, say so; all by the tool `bash`. Without tools it is a title."""
    commands = ["./run_tests.sh", "echo pass > state", "./run_tests.sh"]

    def script(body: Body) -> Reply:
        done = sum(message["role"] == "tool" for message in body["messages"])
        if not body.get("tools"):
            return Reply("A short title")
        if done == len(commands):
            return Reply(ANSWER)
        return Reply(calls=(("bash", {"command": commands[done], "description": "Works on the tests"}),))

    return script


@pytest.fixture
def broken(work: Path) -> Path:
    """A working copy whose tests fail until its file `state` says pass."""
    tests = work / "run_tests.sh"
    tests.write_text('#!/bin/sh\n[ "$(cat state)" = pass ] && echo "3 passed in 0.1s" || { echo "1 failed, 2 passed in 0.1s"; exit 1; }\n')
    tests.chmod(0o755)
    (work / "state").write_text("fail\n")
    return work


def check(reef: ReefHome, scenario: str) -> dict[str, Any]:
    sessions = reef.get(f"/reef/scenarios/{scenario}/sessions")["sessions"]
    assert [session["turns"] for session in sessions] == [4]
    shown = reef.get(f"/reef/scenarios/{scenario}/sessions/{sessions[0]['id']}")
    turns = [turn for turn in shown["turns"] if turn["kind"] == "turn"]
    assert [turn["step"] for turn in turns] == ["begin", "continue", "continue", "continue"]
    assert [turn["follows"] for turn in turns[1:]] == [turn["receipt"] for turn in turns[:-1]]
    assert [[message["role"] for message in turn["added"]] for turn in turns[1:]] == [["tool"]] * 3
    assert [tuple(turn["signals"]) for turn in turns] == MENDED, json.dumps([turn["added"][-1] for turn in turns])
    printed = reef.cli("session", sessions[0]["id"], "-s", scenario).stdout
    assert printed.count(QUESTION) == 1 and "→ bash(" in printed and "signals: tests passed, tests mended" in printed
    return sessions[0]


@pytest.mark.parametrize("named", [True, False], ids=["as Reef sets it up", "with nothing but the address"])
def test_pi(named: bool, agents: Agents, model: ScriptedServer, reef: ReefHome, broken: Path, tmp_path: Path) -> None:
    """Without `compat` pi sends no session id on the chat wire: it is known by the tool calls that come back."""
    model.play(mending())
    home, scenario = tmp_path / "agent", "pi-named" if named else "pi-plain"
    home.mkdir()
    served = provider(reef.url, scenario, reef.home.client_token, MODEL, fit_window(CONTEXT_TOKENS, 4096))
    if not named:
        served.pop("compat")
    (home / "models.json").write_text(json.dumps({"providers": {"reef": served}}))
    (home / "settings.json").write_text(json.dumps({"defaultProvider": "reef", "defaultModel": MODEL}))
    done = agents.run(
        [str(agents.npm(PI_PACKAGE, PI_VERSION) / "pi"), "--session-id", "by-hand", "-p", QUESTION],
        home=tmp_path / "home",
        cwd=broken,
        env={"PI_CODING_AGENT_DIR": str(home), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
    )
    assert done.returncode == 0 and ANSWER in done.stdout, done.stdout + done.stderr
    session = check(reef, scenario)
    assert (session["id"] == "by-hand") is named


def test_opencode(agents: Agents, model: ScriptedServer, reef: ReefHome, broken: Path, tmp_path: Path) -> None:
    model.play(mending())
    settings = opencode_settings(reef)
    settings["provider"]["reef"]["options"]["baseURL"] = f"{reef.url}/reef/scenarios/opencode-tools/v1"
    done = run_opencode(agents, settings, QUESTION, broken, tmp_path / "home")
    assert done.returncode == 0 and ANSWER in done.stdout, done.stdout + done.stderr
    assert check(reef, "opencode-tools")["asides"] == 1
