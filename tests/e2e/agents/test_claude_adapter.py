"""Reef inside the real Claude Code: the notice at its start, what the user can type, the live swap, and what is told of each run."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.real import FIRST, OWN_FILES, SECOND, START_S, RealAgent, real_agent, slow
from tests.e2e.agents.scripted import Body, Reply
from tests.e2e.terminal import Terminal

pytestmark = MARKS


@pytest.fixture(scope="module")
def claude(agents: Agents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAgent]:
    with real_agent("claude", agents, tmp_path_factory.mktemp("claude")) as agent:
        agent.publish(FIRST)
        agent.reef("install", "claude")
        yield agent


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[bytes]]]:
    """A user's proxy: its address, and what it was asked for."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        asked.append(connection.recv(4096).split(b"\r\n", 1)[0])

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked


def answering(agent: RealAgent) -> None:
    """Each turn is answered with its number; titles and the like are asked without tools."""

    def script(body: Body) -> Reply:
        turn = sum(message["role"] == "assistant" for message in body["messages"]) + 1
        return Reply(f"Answer {turn}.") if body.get("tools") else Reply("A short title")

    agent.model.play(script)


def terminal(agent: RealAgent, folder: Path, name: str, **variables: str) -> Terminal:
    """`reef-claude` in the user's project."""
    command = ["sh", "-c", 'cd "$1" && exec env PATH="$2" "$3"', "sh", str(agent.work), agent.env["PATH"], str(agent.launcher)]
    return Terminal(folder, command, {**agent.env, "TERM": "xterm-256color", **variables}, (120, 45), name)


def press(shown: Terminal, key: str, text: str) -> None:
    """A dialog takes no key in its first moments."""
    deadline = time.monotonic() + START_S
    while text not in shown.screen and time.monotonic() < deadline:
        shown.press(key)
        time.sleep(0.7)
    shown.until(text)


def said(shown: Terminal, text: str, *answers: str, without: str = "") -> str:
    """The screen once what is typed was answered."""
    shown.type(text)
    shown.until(text)
    shown.press("Enter")
    return shown.until(*answers, without=without, seconds=START_S)


def leave(shown: Terminal) -> None:
    shown.type("/exit")
    shown.press("Enter")
    deadline = time.monotonic() + START_S
    while shown.ended is None and time.monotonic() < deadline:
        time.sleep(0.1)


def reports(agent: RealAgent, number: int) -> list[dict[str, Any]]:
    """All reports, once there are so many."""
    deadline = time.monotonic() + 20
    while True:
        answer = agent.daemon.get("/reef/scenarios/claude/records?limit=100")
        found = [record["payload"] for record in answer["records"] if record["request_type"] == "report"]
        if len(found) >= number or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def run(agent: RealAgent, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(agent.launcher), *arguments],
        cwd=agent.work,
        env={**agent.env, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )


def test_from_the_first_start_over_feedback_and_notice_to_the_swap(
    claude: RealAgent, tmp_path: Path, proxy: tuple[str, list[bytes]]
) -> None:
    answering(claude)
    address, asked = proxy
    with terminal(claude, tmp_path, "first", HTTPS_PROXY=address, HTTP_PROXY=address, ALL_PROXY=address) as shown:
        shown.until("Choose the text style", seconds=START_S)
        press(shown, "Enter", "Security notes")
        press(shown, "Enter", "trust this folder")
        press(shown, "Down", "❯ Yes")
        shown.press("Enter")
        screen = shown.until("scripted", "Reef r2", "manual mode", seconds=START_S)
        assert "log in" not in screen.lower() and "auto mode" not in screen, "no login, and what is to run is asked for"
        said(shown, "Hello.", "Answer 1.")
        assert "say please" in claude.shown() and "The skill of old days." in claude.shown()
        assert "Tell Reef" not in claude.shown(), "the model finds no command by which it would judge itself"
        before = len(claude.model.bodies)
        said(shown, "/good exactly so", "Reef has it: the last answer is good, exactly so.")
        assert len(claude.model.bodies) == before, "no model is asked"
        claude.publish(SECOND)
        said(shown, "/reef-diff", "+ - Never guess a colour.")
        said(shown, "/reef-update", "It holds from your next message on.", "Reef r3")
        said(shown, "Again.", "Answer 2.")
        assert "Never guess a colour." in claude.shown() and "Hello." in claude.shown()
        said(shown, "/ship it", "Answer 3.")
        assert "in the new way" in claude.shown() and "good, exactly so" not in claude.shown()
        leave(shown)
    assert asked == [], "nobody but Reef is called"
    told = reports(claude, 4)
    assert [(one.get("score"), one.get("feedback")) for one in told if one.get("score")] == [(1, "exactly so")]
    assert [one["metadata"].get("outcome") for one in told] == ["completed", None, "completed", "completed"]
    records = claude.records()
    assert [record["release_id"] for record in records] == ["r2", "r3", "r3"], "a session keeps its release until its user updates"
    assert told[1]["references"] == [told[0]["metadata"]["receipts"][0]]


def test_a_new_release_is_told_at_the_start_and_can_be_skipped(claude: RealAgent, tmp_path: Path) -> None:
    answering(claude)
    claude.publish({**SECOND, "AGENTS.md": "- Always say please.\n"})
    with terminal(claude, tmp_path, "second") as shown:
        line = "Reef r3 → r4: −2 rules"
        shown.until(line, "/reef-skip", "Reef r3 → r4 /reef-update", seconds=START_S)
        said(shown, "/reef-skip", "r4 is skipped", "Reef r3 (r4 skipped)")
    with terminal(claude, tmp_path, "third") as shown:
        assert line not in shown.until("Reef r3 (r4 skipped)", seconds=START_S)
    assert line not in run(claude, "-p", "Hello.").stderr
    (claude.place / "agent" / "reef-skipped.json").unlink()


def test_a_run_that_the_user_stops_is_told_as_aborted(claude: RealAgent, tmp_path: Path) -> None:
    over: list[object] = []

    def script(body: Body) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            slow(30, over)
            return Reply("Too late.")
        if "Read it." in json.dumps(body["messages"][-1]) or "Read it." in json.dumps(body["messages"][-2]):
            return Reply(calls=(("Read", {"file_path": str(claude.work / "notes.txt")}),))
        return Reply("As you wish.")

    claude.model.play(script)
    before = len(reports(claude, 0))
    with terminal(claude, tmp_path, "fourth") as shown:
        shown.until("Reef r3", seconds=START_S)
        shown.type("Read it.")
        shown.press("Enter")
        while len(claude.model.bodies) < 2:  # the test's own limit ends it
            time.sleep(0.1)
        shown.press("Escape")
        shown.until("Interrupted")
        over.append(True)
        said(shown, "Then not.", "As you wish.")
    told = [one["metadata"]["outcome"] for one in reports(claude, before + 2)[before:]]
    assert sorted(told) == ["aborted", "completed"]


def test_without_a_terminal_it_answers_and_tells_how_it_ended(claude: RealAgent) -> None:
    answering(claude)
    before = len(reports(claude, 0))
    done = run(claude, "-p", "Hello.", "--output-format", "json")
    told = json.loads(done.stdout)
    assert "Reef r3 → r4: −2 rules; to take it: reef update claude" in done.stderr
    assert (done.returncode, told["result"], told["is_error"]) == (0, "Answer 1.", False), done.stderr
    assert told["modelUsage"]["scripted"]["contextWindow"] == 131_072
    [ended] = reports(claude, before + 1)[before:]
    assert ended["metadata"]["outcome"] == "completed" and ended["metadata"]["agent_session"] == told["session_id"]
    assert claude.records()[-1]["session"] == told["session_id"]


def test_the_users_own_key_and_proxy_are_left_out_and_a_project_leads_nowhere_else(claude: RealAgent) -> None:
    answering(claude)
    nobody = "http://127.0.0.1:9"
    project = claude.work / ".claude" / "settings.json"
    project.parent.mkdir()
    project.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": nobody}, "apiKeyHelper": "echo theirs"}))
    theirs = {"ANTHROPIC_API_KEY": "sk-theirs", "ANTHROPIC_BASE_URL": nobody, "ANTHROPIC_MODEL": "opus", "CLAUDE_CODE_USE_BEDROCK": "1"}
    done = run(claude, "-p", "Hello.", **theirs, HTTP_PROXY=nobody, HTTPS_PROXY=nobody)
    assert (done.returncode, done.stdout.strip()) == (0, "Answer 1."), done.stdout + done.stderr


def test_rules_that_come_or_go_reach_the_conversation_that_is_open(claude: RealAgent, tmp_path: Path) -> None:
    answering(claude)
    bare = {path: text for path, text in SECOND.items() if path != "AGENTS.md"}
    claude.publish(bare)
    claude.reef("update", "claude")
    with terminal(claude, tmp_path, "rules") as shown:
        shown.until("manual mode", seconds=START_S)
        said(shown, "Hello.", "Answer 1.")
        claude.publish(SECOND)
        said(shown, "/reef-update", "It holds from your next message on.")
        said(shown, "Again.", "Answer 2.")
        assert "Never guess a colour." in json.dumps(claude.model.bodies[-1])
        claude.publish(bare)
        said(shown, "/reef-update", "−3 rules")
        said(shown, "Once more.", "Answer 3.")
        assert "No rules yet." in json.dumps(claude.model.bodies[-1])
        leave(shown)


def test_a_daemon_that_is_down_costs_a_line_and_no_time(claude: RealAgent, tmp_path: Path) -> None:
    claude.daemon.stop()
    try:
        with terminal(claude, tmp_path, "fifth") as shown:
            shown.until("Reef does not answer at", "reef up", "Reef is down", seconds=START_S)
            said(shown, "/reef-status", "Reef does not answer at")
        told = json.loads((claude.place / "agent" / "reef.json").read_text())
        event = json.dumps({"hook_event_name": "SessionStart", "source": "startup"})
        command = json.loads((claude.place / "agent" / "settings.json").read_text())["hooks"]["SessionStart"][0]["hooks"][0]["command"]
        began = time.monotonic()
        done = subprocess.run(["sh", "-c", command], input=event, capture_output=True, text=True, timeout=20, check=True)
        assert told["base_url"] in json.loads(done.stdout)["systemMessage"]
        assert time.monotonic() - began < 3, "300 ms on a machine with nothing else to do"
    finally:
        claude.daemon.start()


def test_a_removal_leaves_the_users_own_and_nothing_that_runs(claude: RealAgent) -> None:
    own = claude.own_files()
    assert own.keys() == OWN_FILES.keys(), "its links would take the place of those of the user's own"
    claude.reef("uninstall", "claude")
    left = {path.relative_to(claude.place / "agent").parts[0] for path in claude.place.rglob("*") if path.is_file()}
    assert left <= {"projects", "history.jsonl", "settings.json"}, left
    assert json.loads((claude.place / "agent" / "settings.json").read_text()) == {"theme": "auto"}, "what the first start asked for"
    claude.reef("uninstall", "claude", "--everything")
    assert not claude.place.exists() and claude.own_files() == own
