"""The real pi and codex run out of room and compact: the summary is no turn, and the session goes on behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.pi.runtime import PI_PACKAGE, PI_VERSION
from adapters.pi.settings import models_text, provider, settings_text
from adapters.pi.window import fit_window
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import MODEL, Body, Reply, ScriptedServer
from tests.e2e.agents.test_codex import VERSION as CODEX_VERSION
from tests.e2e.agents.test_codex import settings as codex_settings
from tests.e2e.reef_home import ReefHome

pytestmark = MARKS
WINDOW = 16_384
STORY = "The colour that you asked for is teal, as the notes have it. "


@pytest.mark.parametrize("named", [True, False], ids=["as Reef sets it up", "with nothing but the address"])
def test_pi(named: bool, agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    def script(body: Body) -> Reply:
        if "summarization" in str(body["messages"][0]["content"]):
            return Reply("## Goal\nFind the colour that the notes name: it is teal.\n\n## Next\nNothing is left to be done.")
        return Reply(STORY * 60)

    model.play(script)
    home, scenario = tmp_path / "agent", "pi-compact" if named else "pi-compact-plain"
    home.mkdir()
    window = fit_window(WINDOW, 2048)
    served = provider(reef.url, scenario, reef.home.client_token, MODEL, window)
    if not named:
        served.pop("compat")
    (home / "models.json").write_text(models_text(None, served))
    settings = json.loads(settings_text(None, {}, (), MODEL, window))
    settings["compaction"]["keepRecentTokens"] = 500
    (home / "settings.json").write_text(json.dumps(settings))
    for number in range(3):
        model.prompt_tokens = WINDOW - 500 if number == 1 else 2000
        done = agents.run(
            [str(agents.npm(PI_PACKAGE, PI_VERSION) / "pi"), "--session-id", "story", "-p", f"Question number {number}, please."],
            home=tmp_path / "home",
            cwd=work,
            env={"PI_CODING_AGENT_DIR": str(home), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
    sessions = reef.get(f"/reef/scenarios/{scenario}/sessions")["sessions"]
    assert [(session["turns"], session["asides"]) for session in sessions] == [(3, 2)], "pi asks for the summary in two parts"
    assert (sessions[0]["id"] == "story") is named
    turns = reef.get(f"/reef/scenarios/{scenario}/sessions/{sessions[0]['id']}")["turns"]
    assert [turn["step"] for turn in turns if turn["kind"] == "turn"] == ["begin", "continue", "compaction"]
    assert turns[-1]["follows"] == turns[1]["receipt"]
    assert "it is teal" in json.dumps(turns[-1]["added"][0]), "what it begins with now is the summary"


def test_codex(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    """It asks for the summary at the end of the whole conversation, with the instructions and tools of a turn."""

    def script(body: Body) -> Reply:
        if "CHECKPOINT" in json.dumps(body["messages"][-1]):
            return Reply("The notes were read: the colour that they name is teal. Nothing else was done so far.")
        if "the colour that they name is teal" in json.dumps(body["messages"]):
            return Reply("The notes say teal.")
        model.prompt_tokens = 60_000
        return Reply(calls=(("exec_command", {"cmd": "cat notes.txt"}),))

    model.play(script)
    home = tmp_path / "codex"
    home.mkdir()
    (home / "config.toml").write_text("model_auto_compact_token_limit = 50000\n" + codex_settings(reef))
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    done = agents.run(
        [str(agents.npm("@openai/codex", CODEX_VERSION) / "codex"), "exec", *options, "Which colour do the notes name?"],
        home=tmp_path / "home",
        cwd=work,
        env={"CODEX_HOME": str(home), "REEF_CLIENT_TOKEN": reef.token("client")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sessions = reef.get("/reef/scenarios/codex/sessions")["sessions"]
    assert len(sessions) == 1
    turns = reef.get(f"/reef/scenarios/codex/sessions/{sessions[0]['id']}")["turns"]
    assert [(turn["kind"], turn["step"]) for turn in turns] == [("turn", "begin"), ("aside", "begin"), ("turn", "compaction")]
    assert turns[2]["follows"] == turns[0]["receipt"]
