"""The real opencode completes a task with a tool through the daemon, and Reef records it as one session."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import CONTEXT_TOKENS, MODEL, ScriptedServer, tool_task
from tests.e2e.reef_home import ReefHome

pytestmark = MARKS
VERSION = "1.18.33"


def settings(reef: ReefHome) -> dict[str, Any]:
    model = {"tool_call": True, "limit": {"context": CONTEXT_TOKENS, "output": 4096}}
    options = {"baseURL": f"{reef.url}/v1", "apiKey": reef.token("client")}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Reef", "options": options, "models": {MODEL: model}}
    return {
        "model": f"reef/{MODEL}",
        "small_model": f"reef/{MODEL}",
        "share": "disabled",
        "autoupdate": False,
        "permission": "allow",
        "provider": {"reef": provider},
    }


def run_opencode(agents: Agents, settings: Mapping[str, Any], question: str, work: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """To its end, with these settings and a home that must not exist yet."""
    config = home / "config"
    config.mkdir(parents=True)
    (config / "opencode.json").write_text(json.dumps(settings))
    return agents.run(
        [str(agents.npm("opencode-ai", VERSION) / "opencode"), "run", question],
        home=home,
        cwd=work,
        env={
            "OPENCODE_CONFIG_DIR": str(config),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "npm_config_offline": "true",  # else each run fetches the packages that plugins would need
        },
    )


def test_a_task_of_two_turns_is_one_session_and_its_title_is_no_turn(
    agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path
) -> None:
    model.play(tool_task("read", {"filePath": str(work / "notes.txt")}, "The notes say teal."))
    done = run_opencode(agents, settings(reef), "Which colour do the notes name?", work, tmp_path / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The notes say teal." in done.stdout
    assert any("The colour is teal." in json.dumps(body["messages"][-1]) for body in model.bodies), "the tool's result never came back"
    sessions = reef.get("/reef/scenarios/default/sessions")["sessions"]
    assert [(session["turns"], session["asides"]) for session in sessions] == [(2, 1)]
