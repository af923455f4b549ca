"""A real agent as `reef install` leaves it: over a daemon whose model is scripted, for a user who has settings already."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from adapters.pi.runtime import NODE_VERSION
from daemon.harness.adapter import HeadlessTask, InstallContext, TaskOutcome, find_adapter
from daemon.harness.installed import read_manifest, read_tree
from daemon.harness.npm_adapter import NpmAdapter
from tests.e2e.agents.installed import Agents, project
from tests.e2e.agents.scripted import Body, Reply, ScriptedServer
from tests.e2e.reef_home import ReefHome

OWN_RULE = "The user's own rule, which is no business of Reef's."
OWN_FILES = {
    ".pi/agent/AGENTS.md": f"- {OWN_RULE}\n",
    ".pi/agent/settings.json": '{"theme": "dark"}\n',
    ".config/opencode/AGENTS.md": f"- {OWN_RULE}\n",
    ".config/opencode/opencode.json": '{"theme": "system"}\n',
    ".codex/AGENTS.md": f"- {OWN_RULE}\n",
    ".codex/config.toml": 'model = "theirs"\n',
    ".claude/CLAUDE.md": f"- {OWN_RULE}\n",
    ".claude/settings.json": '{"model": "theirs"}\n',
    ".claude.json": '{"hasCompletedOnboarding": true}\n',
}
"""What a user of each agent may have in their home."""

CACHES = (".npm", ".cache")
"""Below the user's home, and nobody's loss."""

START_S = 60.0  # of a machine that has much else to do
FIRST = {
    "AGENTS.md": "- Always say please.\n",
    "skills/old/SKILL.md": "---\nname: old\ndescription: The skill of old days.\n---\nOld.\n",
    "commands/ship.md": "---\ndescription: Ship it\n---\nShip $ARGUMENTS as before.\n",
}
"""A harness with rules, a skill and a command, as a test's first release."""
SECOND = {
    "AGENTS.md": "- Always say please.\n- Never guess a colour.\n- Read the notes first.\n",
    "commands/ship.md": "---\ndescription: Ship it\n---\nShip $ARGUMENTS in the new way.\n",
}
"""What replaces it: more rules, the skill gone, the command reworded."""


class RealAgent:
    """`reef("update", …)` types a command, `task(…)` plays a prompt, `shown()` is what the model was shown last."""

    def __init__(self, adapter: NpmAdapter, model: ScriptedServer, reef: ReefHome, agents: Agents, folder: Path) -> None:
        self.adapter, self.model, self.daemon = adapter, model, reef
        self.name = adapter.name
        self.home, self.work = folder / "home", project(folder / "wörk 100%")
        for path, text in OWN_FILES.items():
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text(text)
        self.place = reef.home.agents / adapter.name
        programs = (agents.npm("node", NODE_VERSION).parent / "node" / "bin", agents.npm(adapter.package.name, adapter.package.version))
        path = os.pathsep.join((*map(str, programs), os.environ["PATH"]))
        self.env = {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "dumb"}

    @property
    def launcher(self) -> Path:
        return self.place / "bin" / f"reef-{self.name}"

    @property
    def context(self) -> InstallContext:
        """As it was installed."""
        manifest = read_manifest(self.place)
        assert manifest is not None, f"{self.name} is not installed"
        told = manifest.binding
        return InstallContext(
            self.place,
            told.base_url,
            self.daemon.home.client_token,
            told.model_id,
            told.context_tokens,
            told.max_tokens,
            told.scenario,
            read_tree(self.place),
            manifest.release_id,
        )

    def reef(self, *arguments: str, fails: bool = False) -> str:
        """What it says; `fails`: with exit code 1, on stderr."""
        command = [sys.executable, "-P", "-m", "reef_cli.main", *arguments]
        env = {**self.env, "REEF_HOME": str(self.daemon.root)}
        done = subprocess.run(command, env=env, cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert done.returncode == int(fails), f"reef {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stderr if fails else done.stdout

    def publish(self, files: Mapping[str, str]) -> str:
        """A release with this harness, in place of the one that serves."""
        self.daemon.post("/reef/scenarios", {"name": self.name})
        body: dict[str, object] = {"files": dict(files), "base_release_id": self.daemon.head(self.name)}
        answer = self.daemon.post(f"/reef/scenarios/{self.name}/harness", body)
        if answer["findings"]:
            answer = self.daemon.post(
                f"/reef/scenarios/{self.name}/harness", {**body, "confirmed": [one["id"] for one in answer["findings"]]}
            )
        return str(answer["release"]["release_id"])

    def task(self, prompt: str, session: str = "", timeout_s: float = 120) -> TaskOutcome:
        task = HeadlessTask(prompt, self.work, timeout_s, session, self.env)
        with _path(self.env["PATH"]):
            return self.adapter.run_task(self.context, task)

    def shown(self) -> str:
        """Everything that the model was sent since the script began."""
        return json.dumps(self.model.bodies, ensure_ascii=False)

    def records(self) -> list[dict[str, Any]]:
        """The payloads of the inference records of its scenario, oldest first."""
        answer = self.daemon.get(f"/reef/scenarios/{self.name}/records?limit=100")
        return [record["payload"] for record in answer["records"] if record["request_type"] == "inference"]

    def own_files(self) -> dict[str, bytes]:
        """What lies in the user's home."""
        found = (path for path in self.home.rglob("*") if path.is_file() and path.relative_to(self.home).parts[0] not in CACHES)
        return {path.relative_to(self.home).as_posix(): path.read_bytes() for path in found}

    def processes(self) -> list[str]:
        """What runs with the user's home: the agent and whatever it started."""
        found: list[str] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.home) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(process.cmdline())[:200])
        return found


@contextlib.contextmanager
def real_agent(name: str, agents: Agents, folder: Path) -> Iterator[RealAgent]:
    adapter = find_adapter(name)
    assert isinstance(adapter, NpmAdapter)
    with ScriptedServer() as model, ReefHome(folder / "reef", model.engine()) as reef:
        reef.start()
        yield RealAgent(adapter, model, reef, agents, folder)


def read_call(body: Body, path: Path) -> Reply | None:
    """A call of the agent's own tool that reads `path`, whatever it is called; None: the request offers none."""
    for tool in body.get("tools") or []:
        function = tool["function"]
        parameters = function.get("parameters", {}).get("properties", {})
        for parameter in ("path", "filePath", "file_path"):
            if function["name"].lower() == "read" and parameter in parameters:
                return Reply(calls=((function["name"], {parameter: str(path)}),))
        if function["name"] in ("exec_command", "shell_command") and {"cmd", "command"} & parameters.keys():
            parameter = "cmd" if "cmd" in parameters else "command"
            return Reply(calls=((function["name"], {parameter: f"cat {path.name}"}),))
    return None


def slow(seconds: float, until: Sequence[object]) -> None:
    """Sleep `seconds`, or until something is in `until`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until:
        time.sleep(0.05)


@contextlib.contextmanager
def _path(value: str) -> Iterator[None]:
    """An adapter looks for programs on the PATH of the process that it runs in."""
    before = os.environ["PATH"]
    os.environ["PATH"] = value
    try:
        yield
    finally:
        os.environ["PATH"] = before
