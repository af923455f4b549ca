"""The real pi runs out of room and compacts: the summary is no turn, and the session goes on behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.pi.runtime import PI_PACKAGE, PI_VERSION
from adapters.pi.settings import provider, write_settings
from adapters.pi.window import fit_window
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import MODEL, Body, Reply, ScriptedServer
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
    write_settings(home, served, MODEL, window)
    settings = json.loads((home / "settings.json").read_text())
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
