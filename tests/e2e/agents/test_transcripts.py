"""What the real agents keep for themselves is read as they write it now, and what they asked through Reef is not stored twice."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.agents import test_claude, test_codex, test_opencode
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import CONTEXT_TOKENS, MODEL, ScriptedServer, tool_task
from tests.e2e.reef_home import ReefHome

pytestmark = MARKS
QUESTION, ANSWER = "Which colour do the notes name?", "The notes say teal."
PI = "1.6.0"


def check(reef: ReefHome, agent: str, place: Path) -> None:
    """Both turns are joined where they were served, and come in whole, once, elsewhere."""
    for scenario, counted in ((agent, (0, 2, 0)), (f"{agent}-again", (2, 0, 0)), (f"{agent}-again", (0, 2, 0))):
        if scenario != agent and agent in ("claude", "codex"):
            continue  # whose transcripts name our receipts, so that they are known in any scenario
        done = reef.cli("import", agent, str(place), "-s", scenario, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        told = json.loads(done.stdout)
        assert (told["new"], told["present"], told["skipped"]) == counted, (scenario, told)
        [session] = [one for one in reef.get(f"/reef/scenarios/{scenario}/sessions")["sessions"] if one["turns"]]
        assert session["turns"] == 2, session


def test_pi(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(tool_task("read", {"path": str(work / "notes.txt")}, ANSWER))
    folder = tmp_path / "agent"
    folder.mkdir()
    provider = {
        "baseUrl": f"{reef.url}/reef/scenarios/pi/v1",
        "api": "openai-completions",
        "apiKey": reef.token("client"),
        "compat": {
            "supportsStore": False,
            "supportsDeveloperRole": False,
            "maxTokensField": "max_tokens",
            "sendSessionAffinityHeaders": True,
        },
        "models": [{"id": MODEL, "contextWindow": CONTEXT_TOKENS, "maxTokens": 4096}],
    }
    (folder / "models.json").write_text(json.dumps({"providers": {"reef": provider}}))
    (folder / "settings.json").write_text(json.dumps({"defaultProvider": "reef", "defaultModel": MODEL}))
    program = agents.npm("@earendil-works/pi-coding-agent", PI) / "pi"
    settings = {"PI_CODING_AGENT_DIR": str(folder), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}
    done = agents.run([str(program), "-p", QUESTION], home=tmp_path / "home", cwd=work, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    check(reef, "pi", folder / "sessions")


def test_claude_code(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(tool_task("Read", {"file_path": str(work / "notes.txt")}, ANSWER))
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    settings = {**test_claude.environment(reef, home), "ANTHROPIC_BASE_URL": f"{reef.url}/reef/scenarios/claude"}
    program = agents.npm("@anthropic-ai/claude-code", test_claude.VERSION) / "claude"
    done = agents.run([str(program), "-p", QUESTION], home=home, cwd=work, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    check(reef, "claude", home / "config" / "projects")


def test_the_codex(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(tool_task("exec_command", {"cmd": "cat notes.txt"}, ANSWER))
    home = tmp_path / "codex"
    home.mkdir()
    (home / "config.toml").write_text(test_codex.settings(reef))
    program = agents.npm("@openai/codex", test_codex.VERSION) / "codex"
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    settings = {"CODEX_HOME": str(home), "REEF_CLIENT_TOKEN": reef.token("client")}
    done = agents.run([str(program), "exec", *options, QUESTION], home=tmp_path / "home", cwd=work, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    check(reef, "codex", home / "sessions")


def test_the_opencode(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(tool_task("read", {"filePath": str(work / "notes.txt")}, ANSWER))
    settings = test_opencode.settings(reef)
    settings["provider"]["reef"]["options"]["baseURL"] = f"{reef.url}/reef/scenarios/opencode/v1"
    done = test_opencode.run_opencode(agents, settings, QUESTION, work, tmp_path / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    check(reef, "opencode", tmp_path / "home" / ".local" / "share" / "opencode")
