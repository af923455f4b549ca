"""The real aider, without tools and session ids, edits a file in two turns and commits each: one session, the commit calls no turns."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import MODEL, Body, Reply, ScriptedServer
from tests.e2e.reef_home import ReefHome

pytestmark = [*MARKS, pytest.mark.skipif(sys.version_info >= (3, 13), reason="aider 0.86.2 needs Python 3.12 or older")]
REQUIREMENT = "aider-chat==0.86.2"  # brings packages of its own: only ever in a folder that is thrown away


def script(body: Body) -> Reply:
    """The colour that the last message asks for; a commit message for what asks for one."""
    if "commit message" in str(body["messages"][0]["content"]):
        return Reply("docs: change the colour of the notes")
    colour = "blue" if "is not blue" in str(body["messages"][-1]["content"]) else "red"
    return Reply(f"I change the colour of the notes to {colour}, as you asked me to do.\n\nnotes.txt\n```\nThe colour is {colour}.\n```\n")


def test_two_turns_of_an_edit_are_one_session(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(script)
    tests = "grep -q blue notes.txt || { echo The colour is not blue; exit 1; }"
    done = agents.run(
        [
            str(agents.pip("aider", REQUIREMENT) / "aider"),
            *("--model", f"openai/{MODEL}", "--openai-api-base", f"{reef.url}/v1", "--openai-api-key", reef.token("client")),
            *("--yes-always", "--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-pretty", "--no-gitignore"),
            *("--auto-test", "--test-cmd", tests, "--map-tokens", "0", "--message", "Change the colour in the notes", "notes.txt"),
        ],
        home=tmp_path / "home",
        cwd=work,
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (work / "notes.txt").read_text() == "The colour is blue.\n", done.stdout + done.stderr
    sessions = reef.get("/reef/scenarios/default/sessions")["sessions"]
    shown = [reef.get(f"/reef/scenarios/default/sessions/{session['id']}") for session in sessions]
    assert [(session["turns"], session["asides"]) for session in sessions] == [(2, 2)]
    first, second = (turn for turn in shown[0]["turns"] if turn["kind"] == "turn")
    assert (second["step"], second["follows"]) == ("continue", first["receipt"])
    assert "not blue" in second["added"][-1]["content"]
    assert sessions[0]["title"] == "Change the colour in the notes", "not one of aider's own examples"
