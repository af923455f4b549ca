"""The real Claude Code completes a task with a tool through the daemon, over the messages wire; Reef records it as one session."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.scripted import CONTEXT_TOKENS, MODEL, Body, Refused, Reply, ScriptedServer, tool_task
from tests.e2e.reef_home import ReefHome

pytestmark = MARKS
VERSION = "2.1.332"


def environment(reef: ReefHome, home: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": reef.url,
        "ANTHROPIC_AUTH_TOKEN": reef.token("client"),
        "ANTHROPIC_MODEL": MODEL,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CONFIG_DIR": str(home / "config"),
        "DISABLE_AUTOUPDATER": "1",
    }


def test_a_task_of_two_turns_is_one_session(agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path) -> None:
    model.play(tool_task("Read", {"file_path": str(work / "notes.txt")}, "The notes say teal.", reasoning="I read the notes."))
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    claude = agents.npm("@anthropic-ai/claude-code", VERSION) / "claude"
    done = agents.run(
        [str(claude), "-p", "Which colour do the notes name?", "--output-format", "json"], home=home, cwd=work, env=environment(reef, home)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["result"] == "The notes say teal." and told["num_turns"] == 2, told
    assert any("The colour is teal." in json.dumps(body["messages"][-1]) for body in model.bodies), "the tool's result never came back"
    assert not any("x-anthropic-billing-header" in json.dumps(body) for body in model.bodies)
    sessions = reef.get("/reef/scenarios/default/sessions")["sessions"]
    assert [session["turns"] for session in sessions] == [2], sessions
    assert sessions[0]["id"] == told["session_id"], "the id that Claude Code itself sends"
    thought = [message.get("reasoning_content") for message in model.bodies[-1]["messages"] if message["role"] == "assistant"]
    assert thought == ["I read the notes."], "it asks for thinking without its text, which comes back all the same"
    transcript = "".join(path.read_text() for path in home.glob("config/projects/*/*.jsonl"))
    for turn in reef.get(f"/reef/scenarios/default/sessions/{told['session_id']}")["turns"]:
        assert f"msg_{turn['receipt'].removeprefix('rec_')}" in transcript, "the transcript names the records"


def test_it_compacts_a_conversation_that_no_longer_fits_and_goes_on(
    agents: Agents, model: ScriptedServer, reef: ReefHome, work: Path, tmp_path: Path
) -> None:
    too_long = f"This model's maximum context length is {CONTEXT_TOKENS} tokens, however you requested {CONTEXT_TOKENS + 9} tokens."

    def script(body: Body) -> Reply:
        said = json.dumps(body["messages"][-1])
        if "Respond with TEXT ONLY" in said:
            return Reply("<summary>notes.txt was read; it says that the colour is teal.</summary>")
        if any("notes.txt was read" in json.dumps(message) for message in body["messages"]):
            return Reply("The notes say teal.")
        if body["messages"][-1]["role"] == "tool":
            raise Refused(400, {"message": too_long, "code": "context_length_exceeded"})
        return Reply(calls=(("Read", {"file_path": str(work / "notes.txt")}),))

    model.play(script)
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    claude = agents.npm("@anthropic-ai/claude-code", VERSION) / "claude"
    settings = {**environment(reef, home), "ANTHROPIC_BASE_URL": f"{reef.url}/reef/scenarios/long"}
    done = agents.run([str(claude), "-p", "Which colour do the notes name?"], home=home, cwd=work, env=settings)
    assert done.returncode == 0 and "The notes say teal." in done.stdout, done.stdout + done.stderr
    sessions = reef.get("/reef/scenarios/long/sessions")["sessions"]
    assert len(sessions) == 1 and sessions[0]["turns"] >= 2, sessions
    turns = reef.get(f"/reef/scenarios/long/sessions/{sessions[0]['id']}")["turns"]
    assert [(turn["kind"], turn["step"]) for turn in turns] == [("turn", "begin"), ("aside", "begin"), ("turn", "compaction")]
    assert turns[2]["follows"] == turns[0]["receipt"] and sessions[0]["title"] == "Which colour do the notes name?"
