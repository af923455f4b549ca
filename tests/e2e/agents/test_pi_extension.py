"""Reef inside the real pi: the notice and status line at its start, what the user can type, what its requests carry, and the live swap."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.pi.extension import extension_files
from adapters.pi.runtime import PI_PACKAGE, PI_VERSION
from adapters.pi.settings import provider
from adapters.pi.window import fit_window
from daemon.evolution.publish import engine_settings
from daemon.harness_tree import HarnessTree
from daemon.serving.releases import base_facts
from daemon.versions.manifest import EvaluationSummary, Operation
from daemon.versions.release import Draft
from tests.daemon.running import Running, running, until
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.pi_rpc import PiSession, environment, pi_session
from tests.e2e.terminal import Terminal
from tests.engine.fake import ScriptedEngine, content_text

pytestmark = MARKS
FIRST = {
    "AGENTS.md": "- Always say please.\n",
    "skills/old/SKILL.md": "---\nname: old\ndescription: The skill of old days.\n---\nOld.\n",
    "prompts/review.md": "---\ndescription: Review it\n---\nReview $1 as before.\n",
}
SECOND = {
    "AGENTS.md": "- Always say please.\n- Never guess a colour.\n- Read the notes first.\n",
    "prompts/review.md": "---\ndescription: Review it\n---\nReview $1 in the new way.\n",
}
UPDATER = """
import json, os, pathlib, sys, urllib.request
assert sys.argv[1:] == ["update", "pi"], sys.argv
agent = pathlib.Path({agent!r})
told = json.loads((agent / "reef.json").read_text())
if (agent / "broken").exists():
    sys.exit("AGENTS.md was edited on both sides.")
token = pathlib.Path(told["token_path"]).read_text().strip()
headers = {{"authorization": "Bearer " + token, "x-reef-scenario": told["scenario"]}}
with urllib.request.urlopen(urllib.request.Request(told["base_url"] + "/reef/harness", headers=headers)) as answer:
    harness = json.load(answer)
for old in [*agent.glob("skills/*/SKILL.md"), *agent.glob("prompts/*.md")]:
    old.unlink()
for path, text in harness["files"].items():
    (agent / path).parent.mkdir(parents=True, exist_ok=True)
    (agent / path).write_text(text)
(agent / "reef.json").write_text(json.dumps({{**told, "release_id": harness["release_id"]}}))
"""


async def publish(daemon: Running, files: dict[str, str], summary: EvaluationSummary | None = None) -> str:
    model = daemon.services.engine.model
    draft = Draft("pi", Operation.TRAINING, base_facts(model), harness=HarnessTree(files), engine=engine_settings(model), who="test")
    if summary is not None:
        draft = replace(draft, summary=summary)
    head = daemon.services.serving.head("pi")
    return (await daemon.services.publisher.publish(draft, head.release_id if head else None)).id


class Installed:
    """pi's folder as an installation leaves it, over a daemon in this process."""

    def __init__(self, daemon: Running, engine: ScriptedEngine, agents: Agents, folder: Path) -> None:
        self.daemon, self.engine, self.agents = daemon, engine, agents
        self.agent, self.work, self.home = folder / "agent", folder / "wörk 100%", folder / "home"
        for made in (self.agent / "extensions" / "reef", self.work, self.home):
            made.mkdir(parents=True)
        for path, text in extension_files().items():
            (self.agent / path).write_text(text)
        model = daemon.services.engine.model
        token = daemon.services.home.client_token
        served = provider(daemon.url, "pi", token, model.id, fit_window(model.context_tokens, 4096))
        (self.agent / "models.json").write_text(json.dumps({"providers": {"reef": served}}))
        settings = {"defaultProvider": "reef", "defaultModel": model.id, "compaction": {"reserveTokens": 2000, "keepRecentTokens": 50}}
        (self.agent / "settings.json").write_text(json.dumps(settings))
        updater = folder / "updater.py"
        updater.write_text(UPDATER.format(agent=str(self.agent)))
        told = {
            **{"base_url": daemon.url, "token_path": str(token), "scenario": "pi", "release_id": ""},
            **{"model_id": model.id, "context_tokens": model.context_tokens},
            **{"command": [sys.executable, str(updater)], "home": str(folder)},
        }
        (self.agent / "reef.json").write_text(json.dumps(told))

    @property
    def program(self) -> Path:
        return self.agents.npm(PI_PACKAGE, PI_VERSION) / "pi"

    async def update(self) -> None:
        """As from another terminal."""
        command = [*json.loads((self.agent / "reef.json").read_text())["command"], "update", "pi"]
        await asyncio.to_thread(subprocess.run, command, check=True)

    @asynccontextmanager
    async def session(self, *arguments: str) -> AsyncIterator[PiSession]:
        async with pi_session(self.program, self.work, environment(self.agents, self.agent, self.home), *arguments) as session:
            await session.until(lambda: session.status != "")
            yield session

    async def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """pi without a terminal, to its end."""
        return await asyncio.to_thread(
            subprocess.run,
            [str(self.program), *arguments],
            cwd=self.work,
            env=environment(self.agents, self.agent, self.home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def shown(self) -> str:
        """Everything that the model was shown with the last request."""
        return "\n".join(content_text(message) for message in self.engine.requests[-1].messages)

    async def records(self) -> list[dict[str, object]]:
        answer = await self.daemon.client.get("/reef/scenarios/pi/records", params={"limit": 100})
        found: list[dict[str, object]] = answer.json()["records"]
        return found


@asynccontextmanager
async def installed(agents: Agents, folder: Path) -> AsyncIterator[Installed]:
    """With the first release installed."""
    engine = ScriptedEngine({"": "As you wish."})
    async with running(folder / "reef", engine) as daemon:
        await publish(daemon, FIRST)
        pi = Installed(daemon, engine, agents, folder)
        await pi.update()
        yield pi


async def test_the_notice_the_diff_and_the_live_swap(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi, pi.session() as session:
        assert session.status == "Reef r1" and session.notices == []
        await session.type("Hello.")
        assert "say please" in pi.shown() and "skill of old days" in pi.shown()
        await publish(pi.daemon, SECOND, EvaluationSummary(held_out_before=0.25, held_out_after=0.5, tasks=8, wins=3, losses=1, p=0.25))
        async with pi.session() as other:
            line = "Reef r1 → r2: +2 rules · −1 skill · 1 prompt edited · held-out 2→4 of 8 (+3 −1, p .25)"
            await other.until(lambda: other.notices != [])
            assert other.notices == [f"{line}; /reef-update, /reef-diff, /reef-skip"] and other.status == "Reef r1 → r2 /reef-update"
            [difference] = await other.type("/reef-diff")
            assert "  + - Never guess a colour." in difference and "  − Old." in difference and "− - Always" not in difference
            [skipped] = await other.type("/reef-skip")
            assert skipped.startswith("r2 is skipped") and other.status == "Reef r1 (r2 skipped)"
        async with pi.session() as third:
            assert third.notices == [] and third.status == "Reef r1 (r2 skipped)"
        [swapped] = await session.type("/reef-update")
        assert swapped.startswith("Reef r1 → r2: +2 rules") and swapped.endswith("It holds from your next message on.")
        await session.until(lambda: session.status == "Reef r2")
        await session.type("Hello again.")
        assert "Never guess a colour" in pi.shown() and "skill of old days" not in pi.shown() and "Hello." in pi.shown()
        await session.type("/review notes.txt")
        assert "Review notes.txt in the new way." in pi.shown()
        tags = [record["payload"]["tags"] for record in await pi.records() if record["request_type"] == "inference"]  # type: ignore[index]
        assert [tag["release"] for tag in tags] == ["r1", "r2", "r2"]
        served = [record["payload"]["release_id"] for record in await pi.records() if record["request_type"] == "inference"]  # type: ignore[index]
        assert served == ["r1", "r2", "r2"], "a session keeps its release until its user updates"
        assert await session.type("/reef-update") == ["r2 is installed: nothing changes."]


async def test_an_update_that_fails_changes_nothing_and_says_why(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi, pi.session() as session:
        await publish(pi.daemon, SECOND)
        (pi.agent / "broken").touch()
        assert await session.type("/reef-update") == ["AGENTS.md was edited on both sides."]
        await session.type("Hello.")
        assert "say please" in pi.shown() and "Never guess" not in pi.shown()


async def test_feedback_goes_to_the_last_answer_and_commands_answer(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi, pi.session() as session:
        assert await session.type("/good") == ["There is no answer of Reef's in this session yet."]
        await session.type("First.")
        await session.type("Second.")
        assert await session.type("/bad it guessed the colour") == ["Reef has it: the last answer is bad, it guessed the colour."]
        assert await session.type("/good") == ["Reef has it: the last answer is good."]
        records = await pi.records()
        answers = [record["agent_record_id"] for record in records if record["request_type"] == "inference"]
        reports = [record["payload"] for record in records if record["request_type"] == "report"]
        judged = [(one["references"], one["score"], one["feedback"]) for one in reports if one["score"] is not None]  # type: ignore[index]
        assert judged == [([answers[-1]], -1, "it guessed the colour"), ([answers[-1]], 1, None)]
        [status] = await session.type("/reef-status")
        assert "installed  r1" in status and "serves     r1" in status and "model      scripted" in status
        [why] = await session.type("/reef-why say please")
        assert why.startswith("r1 brought AGENTS.md:1")
        assert (await session.type("/reef-why nothing like this"))[0].startswith("No release has such a line.")
        assert await session.type("/reef-diff") == ["r1 is installed and serves: nothing differs."]


async def test_requests_carry_session_release_and_folder_and_ends_are_told(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi, pi.session("--session-id", "by-hand") as session:
        await session.type("First question, which is long enough to be summed up later on. " * 40)
        await session.type("Second question, which is just as long as the first one was. " * 40)
        compacted = await session.send("compact")
        assert compacted["success"], compacted
        records = [record["payload"] for record in await pi.records()]
        requests = [one for one in records if "tags" in one]  # type: ignore[operator]
        assert len(requests) >= 3, "the summary is a request too"
        folder = str(pi.work).replace("%", "%25").replace("ö", "%C3%B6")
        for request in requests:
            tags = request["tags"]  # type: ignore[index]
            assert (tags["release"], tags["client"], tags["cwd"]) == ("r1", "pi", folder)
            assert request["session"] == "by-hand"  # type: ignore[index]
        pi.engine.token_delay_s = 0.2
        pi.engine.replies = {"": "A very long answer that is going to be cut off in the middle of it. " * 20}
        await session.send("prompt", message="Third.")
        await session.until(lambda: session.count("message_update") > 8)
        await session.send("abort")
        await session.until(lambda: session.count("agent_settled") == 3)
        reports = [record["payload"] for record in await pi.records() if record["request_type"] == "report"]
        told = [one["metadata"] for one in reports]  # type: ignore[index]
        assert [one["outcome"] for one in told] == ["completed", "completed", "aborted"]
        assert told[0]["agent_session"] == "by-hand" and told[0]["cwd"] == str(pi.work) and told[0]["turns"] == 1
        assert [len(one["references"]) for one in reports] == [0, 0, 1]  # type: ignore[index]


@pytest.mark.parametrize("mode", ["text", "json"])
async def test_without_a_terminal_the_notice_is_a_line_on_stderr(mode: str, agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi:
        await publish(pi.daemon, SECOND)
        done = await pi.run("--mode", mode, "-p", "Hello.")
        assert done.returncode == 0 and "As you wish." in done.stdout, done.stderr
        assert done.stderr.strip().startswith("Reef r1 → r2: +2 rules") and done.stderr.strip().endswith("reef update pi")
        assert "Reef" not in done.stdout.replace("reef", "") or mode == "json"
        await until(lambda: pi.daemon.services.reader.counts("pi").reports == 1)


async def test_a_daemon_that_is_down_costs_one_line(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi:
        pass
    async with pi.session() as session:
        await session.until(lambda: session.notices != [])
        assert len(session.notices) == 1 and "reef up" in session.notices[0] and session.status == "Reef is down"
        assert "does not answer" in (await session.type("/reef-status"))[0]


async def test_a_daemon_that_hangs_holds_nobody_up(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi:
        pass
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
        told = json.loads((pi.agent / "reef.json").read_text())
        (pi.agent / "reef.json").write_text(json.dumps({**told, "base_url": f"http://127.0.0.1:{silent.getsockname()[1]}"}))
        async with pi_session(pi.program, pi.work, environment(agents, pi.agent, pi.home)) as session:
            await session.send("get_state")
            assert session.status == "", "pi is ready before Reef is given up on"
            ready = time.monotonic()
            await session.until(lambda: session.status == "Reef is down")
            assert time.monotonic() - ready < 1.5  # 300 ms on a machine with nothing else to do


async def test_in_a_terminal_the_notice_takes_no_key_and_the_swap_is_told(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi:
        await publish(pi.daemon, SECOND)
        env = environment(agents, pi.agent, pi.home)
        command = ["sh", "-c", 'cd "$1" && exec env PATH="$2" "$3"', "sh", str(pi.work), env["PATH"], str(pi.program)]

        def play() -> None:
            with Terminal(tmp_path, command, env, size=(110, 40), name="pi") as terminal:
                terminal.type("typed at once")
                terminal.until("typed at once", "Reef r1 → r2: +2 rules", "/reef-skip", "Reef r1 → r2 /reef-update")
                terminal.press("Enter")
                terminal.until("As you wish.")
                terminal.type("/reef-update")
                terminal.until("Bring the rules, skills, prompts and extensions")
                terminal.press("Enter")
                shown = terminal.until("It holds from your next message on.", "Reef r2", without="/reef-update")
                assert "typed at once" in shown and "rror" not in shown

        await asyncio.to_thread(play)
