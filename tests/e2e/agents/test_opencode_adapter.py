"""Reef inside the real opencode: notice and status line at its start, what the user can type, what requests carry, and the live swap."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.opencode.plugin import plugin_files
from adapters.opencode.runtime import OPENCODE
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.real import FIRST, SECOND, START_S, RealAgent, real_agent, slow
from tests.e2e.agents.scripted import Body, Reply
from tests.e2e.terminal import Terminal

pytestmark = MARKS


@pytest.fixture(scope="module")
def opencode(agents: Agents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAgent]:
    with real_agent("opencode", agents, tmp_path_factory.mktemp("opencode")) as agent:
        (agent.home / ".opencode" / "commands").mkdir(parents=True)
        (agent.home / ".opencode" / "commands" / "theirs.md").write_text("Theirs.\n")
        agent.publish(FIRST)
        agent.reef("install", "opencode")
        yield agent


def answering(agent: RealAgent) -> None:
    """Each turn is answered with its number; titles and the like are asked without tools."""

    def script(body: Body) -> Reply:
        turn = sum(message["role"] == "user" for message in body["messages"])
        return Reply(f"Answer {turn}.") if body.get("tools") else Reply("A short title")

    agent.model.play(script)


def terminal(agent: RealAgent, folder: Path, name: str, size: tuple[int, int] = (120, 40)) -> Terminal:
    """`reef-opencode` in the user's project."""
    command = ["sh", "-c", 'cd "$1" && exec env PATH="$2" "$3"', "sh", str(agent.work), agent.env["PATH"], str(agent.launcher)]
    environment = {**agent.env, "TERM": "xterm-256color"}
    return Terminal(folder, command, environment, size, name)


def run(agent: RealAgent, prompt: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(agent.launcher), "run"],
        cwd=agent.work,
        env={**agent.env, **variables},
        input=prompt,
        capture_output=True,
        text=True,
        timeout=90,
    )


def reports(agent: RealAgent, number: int) -> list[dict[str, Any]]:
    """All reports, once there are so many: what opencode tells of the end of a run comes after the run."""
    deadline = time.monotonic() + 20
    while True:
        answer = agent.daemon.get("/reef/scenarios/opencode/records?limit=100")
        found = [record["payload"] for record in answer["records"] if record["request_type"] == "report"]
        if len(found) >= number or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def asks(agent: RealAgent) -> list[Body]:
    """What the model was asked since the script began, titles aside."""
    return [body for body in agent.model.bodies if body.get("tools")]


def test_a_day_in_the_terminal(opencode: RealAgent, tmp_path: Path) -> None:
    answering(opencode)
    with terminal(opencode, tmp_path, "first") as screen:
        screen.until("Reef r2", seconds=START_S)
        say(screen, "Hello.")
        screen.until("Answer 1.")
        assert "Always say please." in json.dumps(asks(opencode)[-1]) and "skill of old days" in json.dumps(asks(opencode)[-1])
        say(screen, "/bad it guessed the colour")
        screen.until("Reef has it: the last answer is bad")
        ended, judged = sorted(reports(opencode, 2), key=lambda one: one["score"] is not None)
        assert (judged["score"], judged["feedback"]) == (-1, "it guessed the colour")
        [answered] = [one for one in opencode.records() if one["kind"] == "turn"]
        assert judged["references"] == [answered["receipt"]]
        assert len(asks(opencode)) == 1, "the model is not asked for it"
        assert ended["metadata"].items() >= {"outcome": "completed", "turns": 1, "release": "r2", "cwd": str(opencode.work)}.items()
        assert ended["metadata"]["agent_session"] == answered["session"]

        assert opencode.publish(SECOND) == "r3"
        with terminal(opencode, tmp_path, "second") as other:
            other.until("Reef r2 → r3: ", "/reef-skip", "Reef r2 → r3 /reef-update", seconds=START_S)
            other.type("typed meanwhile")
            other.until("typed meanwhile", "/reef-skip")
        say(screen, "/reef-diff", "line by line")
        screen.until("+ - Never guess a colour.", "− Old.", "esc closes")
        screen.press("Escape")
        screen.until("Answer 1.", without="esc closes")
        say(screen, "/reef-update", "Bring the rules")
        screen.until("It holds from your next", "Reef r3", without="/reef-update")
        say(screen, "Hello again.")
        screen.until("Answer 2.")
        reports(opencode, 3)  # else the next message would belong to the same run
        last = json.dumps(asks(opencode)[-1])
        assert "Never guess a colour" in last and "skill of old days" not in last and "Hello." in last
        say(screen, "/ship it")
        screen.until("Answer 3.")
        reports(opencode, 4)
        assert "Ship it in the new way." in json.dumps(asks(opencode)[-1])
        turns = [one for one in opencode.records() if one["kind"] == "turn"]
        assert [one["tags"]["release"] for one in turns] == ["r2", "r3", "r3"]
        assert [one["release_id"] for one in turns] == ["r2", "r3", "r3"], "a session keeps its release until its user updates"
        assert {one["tags"]["cwd"] for one in turns} == {str(opencode.work).replace("%", "%25").replace("ö", "%C3%B6")}

        over: list[object] = []
        opencode.model.play(lambda body: slow(30, over) or Reply("Too late."))
        say(screen, "Slow.")
        screen.until("esc interrupt")
        wait_for(lambda: bool(asks(opencode)))
        screen.press("Escape")
        screen.until("again to interrupt")
        screen.press("Escape")
        ends = [one for one in reports(opencode, 5) if one["score"] is None]
        over.append(True)
        assert [one["metadata"]["outcome"] for one in ends] == ["completed"] * 3 + ["aborted"]
        assert [len(one["references"]) for one in ends] == [0, 0, 0, 1]
    assert not (opencode.home / ".local" / "share" / "opentui").exists(), "the terminal keeps its grammars in Reef's folder"


def say(screen: Terminal, text: str, offered: str = "") -> None:
    """`offered`: what opencode shows of a command while it is typed; only then does Enter take it."""
    screen.type(text)
    screen.until(text, offered)
    screen.press("Enter")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def test_without_a_terminal_the_notice_is_a_line_on_stderr_and_the_users_own_is_left_alone(opencode: RealAgent) -> None:
    now = opencode.publish({**SECOND, "AGENTS.md": f"{SECOND['AGENTS.md']}- Be kind.\n"})
    before = len(reports(opencode, 0))

    def script(body: Body) -> Reply:
        if not body.get("tools"):
            return Reply("A short title")
        if body["messages"][-1]["role"] == "tool":
            return Reply("Done.")
        return Reply(calls=(("bash", {"command": 'echo "[$XDG_CONFIG_HOME|$XDG_DATA_HOME]"', "description": "Look"}),))

    opencode.model.play(script)
    done = run(opencode, "Hello.", XDG_CONFIG_HOME="/theirs", HTTP_PROXY="http://127.0.0.1:9")
    assert done.returncode == 0 and "Done." in done.stdout, done.stdout + done.stderr
    [told] = [line for line in done.stderr.splitlines() if line.startswith("Reef ")]
    assert told.startswith(f"Reef {opencode.context.release_id} → {now}: +") and told.endswith("to take it: reef update opencode")
    assert "[/theirs|]" in json.dumps(asks(opencode)[-1]), "what it starts has the user's own folders"
    assert reports(opencode, before + 1)[-1]["metadata"]["tools"] == 1
    assert os.listdir(opencode.home / ".opencode") == ["commands"], "nothing is fetched into the user's own"
    assert "theirs" not in json.dumps(opencode.model.bodies).replace("/theirs", "")


def test_a_daemon_that_is_down_costs_one_line(opencode: RealAgent, tmp_path: Path) -> None:
    opencode.daemon.stop()
    with terminal(opencode, tmp_path, "down") as screen:
        assert "Ask anything" in screen.until("Reef is down", "Reef does not answer", seconds=START_S)


def test_the_plugins_fit_the_types_of_opencode(agents: Agents, tmp_path: Path) -> None:
    for path, text in plugin_files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    modules = tmp_path / "node_modules"
    modules.mkdir()
    for package, version in (("@opencode-ai/plugin", OPENCODE.version), ("@opentui/solid", "0.4.5")):
        for one in agents.npm(package, version).parent.iterdir():
            if not one.name.startswith(".") and not (modules / one.name).exists():
                (modules / one.name).symlink_to(one)
    types = agents.npm("@types/node", "22.20.7").parent / "@types"
    options = {
        **{"strict": True, "noEmit": True, "target": "es2024", "lib": ["es2024", "dom"], "module": "nodenext"},
        **{"allowImportingTsExtensions": True, "noUncheckedIndexedAccess": True, "noUnusedLocals": True, "noUnusedParameters": True},
        **{"verbatimModuleSyntax": True, "skipLibCheck": True, "types": ["node"], "typeRoots": [str(types)]},
        **{"jsx": "preserve", "jsxImportSource": "@opentui/solid"},
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["plugins/**/*.ts", "plugins/**/*.tsx"]}))
    done = agents.run([str(agents.npm("typescript", "5.9.3") / "tsc"), "-p", str(tmp_path)], home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
