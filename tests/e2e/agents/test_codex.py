"""The real codex, which speaks only the responses wire, completes a task with a tool through the daemon; Reef records one session."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import CONTEXT_TOKENS, MODEL, ScriptedServer, tool_names, tool_task
from tests.e2e.reef_home import ReefHome

pytestmark = MARKS
VERSION = "0.171.0"


def settings(reef: ReefHome) -> str:
    return f"""
model = "{MODEL}"
model_provider = "reef"
model_context_window = {CONTEXT_TOKENS}
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.reef]
name = "Reef"
base_url = "{reef.url}/reef/scenarios/codex/v1"
wire_api = "responses"
supports_websockets = false
env_key = "REEF_CLIENT_TOKEN"
request_max_retries = 0
stream_max_retries = 0
"""


def test_a_task_of_two_turns_is_one_session_and_its_reasoning_comes_back(
    agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path
) -> None:
    model.play(tool_task("exec_command", {"cmd": "cat notes.txt"}, "The notes say teal.", reasoning="I look into the file."))
    home = tmp_path / "codex"
    home.mkdir()
    (home / "config.toml").write_text(settings(reef))
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
    done = agents.run(
        [str(agents.npm("@openai/codex", VERSION) / "codex"), "exec", *options, "Which colour do the notes name?"],
        home=tmp_path / "home",
        cwd=work,
        env={"CODEX_HOME": str(home), "REEF_CLIENT_TOKEN": reef.token("client")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    said = [event["item"]["text"] for event in events if event.get("item", {}).get("type") == "agent_message"]
    assert said == ["The notes say teal."], done.stdout
    usage = next(event["usage"] for event in events if event["type"] == "turn.completed")
    assert usage["input_tokens"] == 200 and usage["output_tokens"] == 20, "both turns' tokens, as the model counted them"

    first, second = model.bodies
    assert "exec_command" in tool_names(first), "codex's functions reach the model; its other tools are none of the model's"
    assert second["messages"][: len(first["messages"])] == first["messages"], "the prompt goes on from where it was"
    call, result = second["messages"][len(first["messages"]) :]
    assert call["reasoning_content"] == "I look into the file." and call["tool_calls"][0]["function"]["name"] == "exec_command"
    assert result["role"] == "tool" and "The colour is teal." in json.dumps(result["content"])

    sessions = reef.get("/reef/scenarios/codex/sessions")["sessions"]
    assert [(session["turns"], session["asides"]) for session in sessions] == [(2, 0)]
    assert transcript(home), "codex keeps its own transcript in its home"


def transcript(home: Path) -> str:
    return "".join(path.read_text() for path in (home / "sessions").rglob("rollout-*.jsonl"))
