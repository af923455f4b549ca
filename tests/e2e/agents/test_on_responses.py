"""opencode and pi set to the responses wire, which both take by choice: the same task, the same one session."""

from __future__ import annotations

import json
from pathlib import Path

from adapters.pi.runtime import PI_PACKAGE, PI_VERSION
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import CONTEXT_TOKENS, MODEL, ScriptedServer, tool_task
from tests.e2e.agents.test_opencode import run_opencode
from tests.e2e.agents.test_opencode import settings as opencode_settings
from tests.e2e.reef_home import ReefHome

pytestmark = MARKS
QUESTION, ANSWER, REASONING = "Which colour do the notes name?", "The notes say teal.", "I look into the file."


def check(reef: ReefHome, model: ScriptedServer, scenario: str, asides: int) -> None:
    """One session of two turns, each on the responses wire, and the model's reasoning sent back with its call."""
    second = next(body for body in model.bodies if body["messages"][-1]["role"] == "tool")
    assert "The colour is teal." in json.dumps(second["messages"][-1]), "the tool's result never came back"
    sessions = reef.get(f"/reef/scenarios/{scenario}/sessions")["sessions"]
    assert [(session["turns"], session["asides"]) for session in sessions] == [(2, asides)]
    records = reef.get(f"/reef/scenarios/{scenario}/records?request_type=inference&limit=100")
    assert json.dumps(records).count('"wire": "responses"') == 2 + asides
    assert second["messages"][-2]["reasoning_content"] == REASONING


def test_opencode(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(tool_task("read", {"filePath": str(work / "notes.txt")}, ANSWER, reasoning=REASONING))
    settings = opencode_settings(reef)
    provider = settings["provider"]["reef"]
    provider["npm"] = "@ai-sdk/openai"
    provider["options"]["baseURL"] = f"{reef.url}/reef/scenarios/opencode/v1"
    provider["models"][MODEL]["reasoning"] = True
    done = run_opencode(agents, settings, QUESTION, work, tmp_path / "home")
    assert done.returncode == 0 and ANSWER in done.stdout, done.stdout + done.stderr
    check(reef, model, "opencode", asides=1)


def test_pi(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(tool_task("read", {"path": "notes.txt"}, ANSWER, reasoning=REASONING))
    home = tmp_path / "agent"
    home.mkdir()
    served = {"id": MODEL, "contextWindow": CONTEXT_TOKENS, "maxTokens": 4096, "reasoning": True}
    provider = {
        "baseUrl": f"{reef.url}/reef/scenarios/pi/v1",
        "api": "openai-responses",
        "apiKey": reef.token("client"),
        "models": [served],
    }
    (home / "models.json").write_text(json.dumps({"providers": {"reef": provider}}))
    (home / "settings.json").write_text(json.dumps({"defaultProvider": "reef", "defaultModel": MODEL}))
    done = agents.run(
        [str(agents.npm(PI_PACKAGE, PI_VERSION) / "pi"), "-p", QUESTION],
        home=tmp_path / "home",
        cwd=work,
        env={"PI_CODING_AGENT_DIR": str(home), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
    )
    assert done.returncode == 0 and ANSWER in done.stdout, done.stdout + done.stderr
    check(reef, model, "pi", asides=0)
