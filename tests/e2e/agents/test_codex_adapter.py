"""Reef inside the real codex: the notice, what the user can type, what requests carry, an update, hooks, and no call to elsewhere."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.real import OWN_FILES, RealAgent, real_agent
from tests.e2e.agents.scripted import CONTEXT_TOKENS, Body, Reply
from tests.e2e.terminal import Terminal

pytestmark = MARKS
START_S = 60.0  # of a machine that has much else to do
HOOKS = {"hooks": {"PostToolUse": [{"hooks": [{"type": "command", "command": 'sh "$CODEX_HOME/extensions/note.sh"'}]}]}}
FIRST = {
    "AGENTS.md": "- Always say please.\n",
    "skills/paint/SKILL.md": "---\nname: paint\ndescription: When colours are asked for.\n---\nName the colour.\n",
    "commands/ship.md": "Ship $ARGUMENTS as before.\n",
    "extensions/hooks.json": json.dumps(HOOKS),
    "extensions/note.sh": '#!/bin/sh\ncat >>"$HOME/hooked"\n',
    "settings.json": '{"disable_paste_burst": true, "tui": {"animations": false}}',  # typed this fast, keys look pasted
}
SECOND = {**FIRST, "AGENTS.md": "- Always say please.\n- Never guess a colour.\n", "commands/ship.md": "Ship $ARGUMENTS in the new way.\n"}


@pytest.fixture(scope="module")
def codex(agents: Agents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAgent]:
    with real_agent("codex", agents, tmp_path_factory.mktemp("codex")) as agent:
        agent.publish(FIRST)
        agent.reef("install", "codex")
        yield agent


def answering(agent: RealAgent, *, tool: bool = False) -> None:
    """Each turn is answered with its number, after a command where `tool` is set; titles are asked without tools."""

    def script(body: Body) -> Reply:
        if not body.get("tools"):
            return Reply('{"title": "A title"}')
        if tool and body["messages"][-1]["role"] != "tool":
            return Reply(calls=(("exec_command", {"cmd": "cat notes.txt"}),))
        return Reply(f"Answer {sum(message['role'] == 'user' for message in body['messages']) - 1}.")

    agent.model.play(script)


def asks(agent: RealAgent) -> list[str]:
    """What the model was asked since the script began, titles aside."""
    return [json.dumps(body["messages"], ensure_ascii=False) for body in agent.model.bodies if body.get("tools")]


def run(agent: RealAgent, prompt: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`reef-codex exec`, as typed in the user's project."""
    command = [str(agent.launcher), "exec", "--json", "--skip-git-repo-check", "-"]
    environment = {**agent.env, **variables}
    return subprocess.run(command, cwd=agent.work, env=environment, input=prompt, capture_output=True, text=True, timeout=120, check=False)


def enter(screen: Terminal, *expected: str, without: str = "", seconds: float = START_S) -> None:
    """Press Enter until the screen shows what it leads to: codex drops a key that comes while it draws a list or starts."""
    deadline = time.monotonic() + seconds
    while True:
        screen.press("Enter")
        try:
            screen.until(*expected, without=without, seconds=2)
            return
        except AssertionError:
            if time.monotonic() > deadline:
                raise


def say(screen: Terminal, text: str, *expected: str) -> None:
    screen.type(f"{text} " if text.startswith("$") else text)  # the blank closes the list of skills
    screen.until(text)
    enter(screen, *expected)


def begin_anew(screen: Terminal) -> None:
    say(screen, "/new", "Where should the new conversation run?")
    enter(screen, "Ask Codex to do anything", without="Worked for")


def reports(agent: RealAgent) -> list[dict[str, Any]]:
    answer = agent.daemon.get("/reef/scenarios/codex/records?limit=100")
    return [record["payload"] for record in answer["records"] if record["request_type"] == "report"]


class Elsewhere:
    """A proxy that carries nothing and notes for whom it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        elsewhere = self

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                elsewhere.asked.append(self.path)
                self.send_error(403)

            do_GET = do_POST = do_CONNECT

            def log_message(self, *_: object) -> None:
                """The tests' output is for the tests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.variables = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), url)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_without_a_terminal_requests_say_whence_and_nothing_goes_elsewhere(codex: RealAgent) -> None:
    answering(codex, tool=True)
    elsewhere = Elsewhere()
    done = run(codex, "Which colour?", **elsewhere.variables, OPENAI_API_KEY="theirs", CODEX_API_KEY="theirs")
    elsewhere.close()
    assert done.returncode == 0 and "Answer 1." in done.stdout and '"type":"error"' not in done.stdout, done.stdout + done.stderr
    assert elsewhere.asked == [] and "Reef " not in done.stderr
    first, second = asks(codex)
    assert "Always say please." in first and "When colours are asked for." in first and "as before" not in first
    assert "The colour is teal." in second
    tags = [record["tags"] for record in codex.records()]
    folder = str(codex.work).replace("%", "%25").replace("ö", "%C3%B6")
    assert tags == [{"client": "codex", "release": "r2", "cwd": folder}] * 2
    assert json.loads((codex.home / "hooked").read_text())["hook_event_name"] == "PostToolUse", (
        "a hook of the release runs, and none is asked for"
    )


def test_a_day_in_the_terminal(codex: RealAgent, tmp_path: Path) -> None:
    answering(codex)
    command = ["sh", "-c", 'cd "$1" && exec env PATH="$2" "$3"', "sh", str(codex.work), codex.env["PATH"], str(codex.launcher)]
    with Terminal(tmp_path, command, {**codex.env, "TERM": "xterm-256color"}, (120, 40), "codex") as screen:
        screen.until("Trust this folder?", seconds=START_S)
        enter(screen, "Ask Codex to do anything")
        say(screen, "Hello.", "Answer 1.")
        assert "Reef r" not in screen.screen and "hooks" not in screen.screen.lower(), "nothing is new, and no hook waits for a yes"
        say(screen, "$reef-bad it guessed the colour", "Reef has it: the last answer is bad, it guessed the colour")
        [judged] = reports(codex)
        answered = [one for one in codex.records() if one["reply"].get("content") == "Answer 1."][-1]
        assert (judged["references"], judged["score"], judged["feedback"]) == ([answered["receipt"]], -1, "it guessed the colour")
        assert len(asks(codex)) == 1, "the model is not asked for it"
        [talk] = [
            one for one in codex.daemon.get("/reef/scenarios/codex/sessions")["sessions"] if one["last_receipt"] == answered["receipt"]
        ]
        assert (talk["turns"], talk["asides"]) == (1, 1), "the title that codex asks for is an aside of it"

        assert codex.publish(SECOND) == "r3"
        begin_anew(screen)
        say(screen, "Hello again.", "Reef r2 → r3: ", "$reef-update, $reef-diff, $reef-skip", "Answer ")
        say(screen, "$reef-diff", "+ - Never guess a colour.")
        say(screen, "$reef-update", "It holds from your next message on.")
        before = len(asks(codex))
        say(screen, "Go on.", "Answer ")
        deadline = time.monotonic() + START_S
        while len(asks(codex)) == before and time.monotonic() < deadline:
            time.sleep(0.1)
        last = asks(codex)[-1]
        assert "Hello again." in last and "Never guess a colour." in last and codex.records()[-1]["release_id"] == "r3"
        before = len(asks(codex))
        begin_anew(screen)
        say(screen, "$ship notes.txt", "Answer ")
        last = asks(codex)[-1]
        assert len(asks(codex)) == before + 1 and "Never guess a colour." in last and "Ship $ARGUMENTS in the new way." in last
        assert (codex.records()[-1]["release_id"], codex.records()[-1]["tags"]["release"]) == ("r3", "r3")
    assert 'trust_level = "trusted"' in (codex.place / "agent" / "config.toml").read_text(), "what codex noted stayed through the update"


def test_a_new_release_is_told_on_stderr_without_a_terminal(codex: RealAgent) -> None:
    answering(codex)
    serves = codex.publish({**SECOND, "AGENTS.md": SECOND["AGENTS.md"] + "- Be kind.\n"})
    done = run(codex, "Hello.")
    [told] = [line for line in done.stderr.splitlines() if line.startswith("Reef ")]
    assert told.startswith(f"Reef r3 → {serves}: +1 rule") and told.endswith("to take it: reef update codex")
    codex.reef("update", "codex")
    assert "Reef " not in run(codex, "Hello.").stderr and codex.records()[-1]["tags"]["release"] == serves


def test_a_conversation_that_grows_too_long_is_summed_up_and_goes_on(codex: RealAgent) -> None:
    def script(body: Body) -> Reply:
        number = len(codex.model.bodies)
        codex.model.prompt_tokens = CONTEXT_TOKENS - 5000 if number == 2 else 100
        if number <= 2:
            return Reply(calls=(("exec_command", {"cmd": "cat notes.txt"}),))
        return Reply("All done.") if number > 3 else Reply("A summary of what was done.")

    codex.model.play(script)
    outcome = codex.task("Look around.", session="by-hand")
    assert (outcome.exit_code, outcome.text) == (0, "All done."), outcome
    [session] = [one for one in codex.daemon.get("/reef/scenarios/codex/sessions")["sessions"] if one["id"] == "by-hand"]
    assert session["turns"] == 3, "the summary is no turn"
    assert any("A summary of what was done." in json.dumps(body["messages"]) for body in codex.model.bodies), "the summary came back"


def test_a_daemon_that_is_down_costs_a_line_and_no_wait_and_nothing_is_left_in_the_end(codex: RealAgent) -> None:
    codex.reef("uninstall", "codex")
    left = {path.relative_to(codex.place / "agent").parts[0] for path in codex.place.rglob("*") if path.is_file()}
    assert left == {"sessions", "history.jsonl"}, "conversations are the user's"
    assert codex.processes() == []
    own = codex.own_files()
    own.pop("hooked")
    assert own == {path: text.encode() for path, text in OWN_FILES.items()}
    codex.reef("install", "codex")
    codex.daemon.stop()
    done = run(codex, "Hello.")
    assert done.returncode == 1 and "Connection failed" in done.stdout, done.stdout
    assert done.stderr.count("Reef does not answer") == 1 and "reef up" in done.stderr
