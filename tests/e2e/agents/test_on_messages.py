"""pi and opencode set to the messages wire, which both take by choice: the same task, the same one session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from adapters.pi.runtime import PI_PACKAGE, PI_VERSION
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import CONTEXT_TOKENS, MODEL, ScriptedServer, tool_task
from tests.e2e.agents.test_opencode import run_opencode
from tests.e2e.agents.test_opencode import settings as opencode_settings
from tests.e2e.reef_home import ReefHome

pytestmark = MARKS
ANSWER, REASONING = "The notes say teal.", "I look into the file."


def check(reef: ReefHome, model: ScriptedServer, scenario: str, asides: int) -> dict[str, Any]:
    """One session of two turns, each on the messages wire; returns the call as the agent sent it back."""
    second = next(body for body in model.bodies if body["messages"][-1]["role"] == "tool")
    assert "The colour is teal." in json.dumps(second["messages"][-1]), "the tool's result never came back"
    sessions = reef.get(f"/reef/scenarios/{scenario}/sessions")["sessions"]
    assert [(session["turns"], session["asides"]) for session in sessions] == [(2, asides)]
    records = reef.get(f"/reef/scenarios/{scenario}/records?request_type=inference&limit=100")
    assert json.dumps(records).count('"wire": "messages"') == 2 + asides
    call: dict[str, Any] = second["messages"][-2]
    return call


def test_pi(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(tool_task("read", {"path": "notes.txt"}, ANSWER, reasoning=REASONING))
    home = tmp_path / "agent"
    home.mkdir()
    served = {"id": MODEL, "contextWindow": CONTEXT_TOKENS, "maxTokens": 4096, "reasoning": True}
    address = f"{reef.url}/reef/scenarios/pi"  # its SDK adds /v1/messages
    provider = {"baseUrl": address, "api": "anthropic-messages", "apiKey": reef.token("client"), "models": [served]}
    (home / "models.json").write_text(json.dumps({"providers": {"reef": provider}}))
    (home / "settings.json").write_text(json.dumps({"defaultProvider": "reef", "defaultModel": MODEL}))
    done = agents.run(
        [str(agents.npm(PI_PACKAGE, PI_VERSION) / "pi"), "-p", "Which colour do the notes name?"],
        home=tmp_path / "home",
        cwd=work,
        env={"PI_CODING_AGENT_DIR": str(home), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
    )
    assert done.returncode == 0 and ANSWER in done.stdout, done.stdout + done.stderr
    assert check(reef, model, "pi", asides=0)["reasoning_content"] == REASONING


def test_opencode(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(tool_task("read", {"filePath": str(work / "notes.txt")}, ANSWER, reasoning=REASONING))
    settings = opencode_settings(reef)
    provider = settings["provider"]["reef"]
    provider["npm"] = "@ai-sdk/anthropic"
    provider["options"]["baseURL"] = f"{reef.url}/reef/scenarios/opencode/v1"
    done = run_opencode(agents, settings, "Which colour do the notes name?", work, tmp_path / "home")
    assert done.returncode == 0 and ANSWER in done.stdout, done.stdout + done.stderr
    check(reef, model, "opencode", asides=1)
