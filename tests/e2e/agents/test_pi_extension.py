"""Reef inside the real pi: the notice and status line at its start, what the user can type, what its requests carry, and the live swap."""

from __future__ import annotations

import asyncio
import json
import os
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
from daemon import __version__
from daemon.evolution.publish import engine_settings
from daemon.harness_tree import HarnessTree
from daemon.serving.releases import base_facts
from daemon.versions.manifest import EvaluationSummary, Operation
from daemon.versions.release import Draft
from tests.daemon.running import Running, running, until
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.pi_rpc import PiSession, environment, pi_session
from tests.e2e.agents.real import real_agent
from tests.e2e.agents.scripted import MODEL, Reply, ScriptedServer
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


async def publish(daemon: Running, files: dict[str, str], summary: EvaluationSummary | None = None) -> str:
    model = daemon.services.engine.model
    draft = Draft("pi", Operation.TRAINING, base_facts(model), harness=HarnessTree(files), engine=engine_settings(model), who="test")
    if summary is not None:
        draft = replace(draft, summary=summary)
    head = daemon.services.serving.head("pi")
    return (await daemon.services.publisher.publish(draft, head.release_id if head else None)).id


class Installed:
    """pi as `reef install pi` leaves it, over a daemon in this process that the command line takes for a real one."""

    def __init__(self, daemon: Running, engine: ScriptedEngine, agents: Agents, folder: Path) -> None:
        self.daemon, self.engine = daemon, engine
        self.reef_home = daemon.services.home
        self.work, self.home = folder / "wörk 100%", folder / "home"
        self.work.mkdir()
        self.home.mkdir()
        self.agent = self.reef_home.agents / "pi" / "agent"
        plain = environment(agents, self.agent, self.home)
        self.env = {**plain, "PATH": f"{agents.npm(PI_PACKAGE, PI_VERSION)}{os.pathsep}{plain['PATH']}"}
        self.env.pop("PI_CODING_AGENT_DIR")  # the launcher sets it

    async def reef(self, *arguments: str) -> str:
        """As typed in another terminal."""
        command = [sys.executable, "-P", "-m", "reef_cli.main", *arguments]
        env = {**self.env, "REEF_HOME": str(self.reef_home.root)}
        done = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def program(self) -> Path:
        return self.reef_home.agents / "pi" / "bin" / "reef-pi"

    @asynccontextmanager
    async def session(self, *arguments: str) -> AsyncIterator[PiSession]:
        async with pi_session(self.program, self.work, self.env, *arguments) as session:
            await session.until(lambda: session.status != "")
            yield session

    async def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """pi without a terminal, to its end."""
        return await asyncio.to_thread(
            subprocess.run,
            [str(self.program), *arguments],
            cwd=self.work,
            env=self.env,
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
        waiting = [sys.executable, "-c", "import sys; sys.stdin.read()", "daemon", "serve"]  # a daemon is known by these two words
        known = await asyncio.create_subprocess_exec(*waiting, stdin=asyncio.subprocess.PIPE)
        facts = {"pid": known.pid, "host": "127.0.0.1", "port": daemon.port, "version": __version__, "started_at": time.time()}
        pi.reef_home.lock.write_text(json.dumps(facts))
        try:
            await pi.reef("install", "pi")
            yield pi
        finally:
            known.kill()
            await known.wait()


async def test_from_the_installation_over_notice_diff_and_swap_to_the_removal(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi:
        await notice_and_swap(pi)
        removed = await pi.reef("uninstall", "pi")
        assert "is removed" in removed
        left = {path.relative_to(pi.agent).parts[0] for path in pi.agent.parent.rglob("*") if path.is_file()}
        assert left == {"sessions"}, "conversations are the user's"


async def notice_and_swap(pi: Installed) -> None:
    async with pi.session() as session:
        assert session.status == "Reef r1" and session.notices == []
        await session.type("Hello.")
        assert "say please" in pi.shown() and "skill of old days" in pi.shown()
        await session.type("/good")
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


async def test_rules_changed_by_hand_come_along_and_a_conflict_changes_nothing(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi, pi.session() as session:
        rules = pi.agent / "AGENTS.md"
        rules.write_text("- Always say please.\n- My own rule.\n")
        await publish(pi.daemon, {**FIRST, "prompts/new.md": "---\ndescription: New\n---\nNew.\n"})
        [swapped] = await session.type("/reef-update")
        assert swapped.startswith("Reef r1 → r3: +1 rule") and "+1 prompt" in swapped
        await session.type("Hello.")
        assert "My own rule." in pi.shown() and "/new" not in session.status and session.status == "Reef r3"
        rules.write_text("- Always say thanks.\n- My own rule.\n")
        await publish(pi.daemon, {**FIRST, "AGENTS.md": "- Never say please.\n- My own rule.\n"})
        [refused] = await session.type("/reef-update")
        assert "AGENTS.md" in refused and not refused.startswith("Error"), refused
        await session.type("Hello again.")
        assert "Never say please" not in pi.shown() and rules.read_text() == "- Always say thanks.\n- My own rule.\n"


async def test_an_update_waits_for_the_run_that_is_under_way(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi, pi.session() as session:
        await publish(pi.daemon, SECOND)
        pi.engine.token_delay_s = 0.05
        pi.engine.replies = {"": "An answer that takes so long that there is time to type something else meanwhile. " * 2}
        await session.send("prompt", message="Slow.")
        await session.until(lambda: session.count("message_update") > 2)
        assert session.count("agent_settled") == 0
        waits, swapped = await session.type("/reef-update")
        assert waits == "Reef updates once this run is over." and "It holds from your next message on." in swapped
        assert session.count("agent_settled") == 1


async def test_other_providers_of_the_user_are_told_nothing(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi:
        with ScriptedServer() as other:
            models = json.loads((pi.agent / "models.json").read_text())
            models["providers"]["other"] = {
                **{"baseUrl": other.url, "api": "openai-completions", "apiKey": "theirs"},
                "models": [{"id": MODEL, "contextWindow": 65536, "maxTokens": 1024}],
            }
            (pi.agent / "models.json").write_text(json.dumps(models))
            done = await pi.run("--provider", "other", "--model", MODEL, "-p", "Hello.")
            assert done.returncode == 0, done.stderr
            assert other.headers and not any("reef" in name for headers in other.headers for name in headers)
        assert await pi.records() == [], "it was no run of Reef's"


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


async def test_feedback_finds_the_answer_where_another_server_computes(agents: Agents, tmp_path: Path) -> None:
    """Its reply, id included, reaches pi as it is."""
    with real_agent("pi", agents, tmp_path) as pi:
        pi.reef("install", "pi")
        pi.model.play(lambda body: Reply("As you wish."))
        async with pi_session(pi.launcher, pi.work, pi.env) as session:
            await session.type("First.")
            await session.type("Second.")
            assert await session.type("/bad too short") == ["Reef has it: the last answer is bad, too short."]
        records = pi.daemon.get("/reef/scenarios/pi/records?limit=100")["records"]
        answers = [record["agent_record_id"] for record in records if record["request_type"] == "inference"]
        [judged] = [record["payload"]["references"] for record in records if record["payload"].get("score") is not None]
        assert judged == answers[-1:] and len(answers) == 2


async def test_requests_carry_session_release_and_folder_and_ends_are_told(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi:
        settings = json.loads((pi.agent / "settings.json").read_text())
        (pi.agent / "settings.json").write_text(json.dumps({**settings, "compaction": {"reserveTokens": 2000, "keepRecentTokens": 50}}))
        await tags_and_ends(pi)


async def tags_and_ends(pi: Installed) -> None:
    async with pi.session("--session-id", "by-hand") as session:
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
        await until(lambda: pi.daemon.services.reader.counts("pi").reports == 3)  # it is told once the run has settled
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
        async with pi_session(pi.program, pi.work, pi.env) as session:
            await session.send("get_state")
            assert session.status == "", "pi is ready before Reef is given up on"
            ready = time.monotonic()
            await session.until(lambda: session.status == "Reef is down")
            assert time.monotonic() - ready < 1.5  # 300 ms on a machine with nothing else to do


async def test_in_a_terminal_the_notice_takes_no_key_and_the_swap_is_told(agents: Agents, tmp_path: Path) -> None:
    async with installed(agents, tmp_path) as pi:
        await publish(pi.daemon, SECOND)
        command = ["sh", "-c", 'cd "$1" && exec env PATH="$2" "$3"', "sh", str(pi.work), pi.env["PATH"], str(pi.program)]

        def play() -> None:
            with Terminal(tmp_path, command, pi.env, size=(110, 40), name="pi") as terminal:
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


def test_the_extension_fits_the_types_of_pi(agents: Agents, tmp_path: Path) -> None:
    for path, text in extension_files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    types = agents.npm("@types/node", "22.20.7").parent / "@types"
    (tmp_path / "node_modules").symlink_to(agents.npm(PI_PACKAGE, PI_VERSION).parent)
    options = {
        **{"strict": True, "noEmit": True, "target": "es2024", "lib": ["es2024", "dom"], "module": "nodenext"},
        **{"allowImportingTsExtensions": True, "noUncheckedIndexedAccess": True, "noUnusedLocals": True, "noUnusedParameters": True},
        **{"verbatimModuleSyntax": True, "skipLibCheck": True, "types": ["node"], "typeRoots": [str(types)]},
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["extensions/**/*.ts"]}))
    done = agents.run([str(agents.npm("typescript", "5.9.3") / "tsc"), "-p", str(tmp_path)], home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
