"""A real home with a real daemon process on the embedded model, for tests that stop, kill and restart it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from daemon.paths import Home

START_S = 90.0
MANUAL = "server: {port: 0}\nlearn: {mode: manual}\n"


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    receipt: str
    release: str


class ReefHome:
    """Start, ask, kill. Used as a context manager it leaves no process behind."""

    def __init__(self, root: Path, config: str = MANUAL) -> None:
        self.home = Home(root)
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._output = root.with_name(f"{root.name}.out")
        self.http = httpx.Client(trust_env=False, timeout=120)
        self.model = ""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "reef_cli.main", "init", "--yes"],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"reef init failed: {done.stderr}")
        self.home.config.write_text(config)

    def __enter__(self) -> ReefHome:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.http.close()

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("REEF_")}
        return {**kept, "REEF_HOME": str(self.root), **(more or {})}

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the daemon was not started")
        return self._process.pid

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def launch(self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        """Start the daemon process and return at once."""
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "daemon", "serve", "--home", str(self.root), *arguments],
                env=self.environment(env),
                cwd=cwd or self.root.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def start(self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        """Start the daemon and wait until it answers."""
        self.launch(*arguments, env=env, cwd=cwd)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"the daemon ended at its start:\n{self.output}")
            if self._ready():
                self.model = self._json(self.request("GET", "/v1/models"))["data"][0]["id"]
                return
            time.sleep(0.05)
        raise RuntimeError(f"the daemon was not ready in time:\n{self.output}")

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        return self._process.wait(30)

    def kill(self) -> None:
        """SIGKILL; its children must end by themselves."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    def wait_dead(self, seconds: float = 60) -> int:
        """Wait for a death from inside, such as a failpoint's; the exit status."""
        if self._process is None:
            raise RuntimeError("the daemon was not started")
        return self._process.wait(seconds)

    def children(self, module: str) -> list[psutil.Process]:
        """The daemon's descendants that run `module`."""
        found = []
        for child in psutil.Process(self.pid).children(recursive=True):
            try:
                if module in child.cmdline():
                    found.append(child)
            except psutil.NoSuchProcess:
                continue
        return found

    def token(self, who: str) -> str:
        return (self.home.owner_token if who == "owner" else self.home.client_token).read_text().strip()

    def request(self, method: str, path: str, body: object = None, *, who: str = "owner", timeout: float = 120) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token(who)}"}
        return self.http.request(method, self.url + path, json=body, headers=headers, timeout=timeout)

    def get(self, path: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._json(self.request("GET", path))
        return answer

    def post(self, path: str, body: object) -> dict[str, Any]:
        answer: dict[str, Any] = self._json(self.request("POST", path, body))
        return answer

    def ask(self, prompt: str, max_tokens: int = 16, **more: object) -> Answer:
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": max_tokens, **more}
        response = self.request("POST", "/v1/chat/completions", body, who="client")
        content = self._json(response)
        return Answer(
            content["choices"][0]["message"]["content"],
            response.headers["x-reef-agent-record-id"],
            response.headers["x-reef-release-id"],
        )

    def head(self, scenario: str = "default") -> str:
        releases = self.get(f"/reef/scenarios/{scenario}/releases")["releases"]
        return next(str(release["release_id"]) for release in releases if release["current"])

    def releases(self, scenario: str = "default") -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.get(f"/reef/scenarios/{scenario}/releases")["releases"]
        return listed

    def run(self, recipe: str | None = None, *, seconds: float = 300, scenario: str = "default") -> dict[str, Any]:
        """Start a run and wait for its end; the run as the daemon lists it."""
        return self.wait_run(self.start_run(recipe, scenario=scenario), seconds=seconds, scenario=scenario)

    def start_run(self, recipe: str | None = None, *, scenario: str = "default") -> str:
        started = self.post(f"/reef/scenarios/{scenario}/runs", {"recipe": recipe} if recipe else {})
        return str(started.get("run_id") or started["id"])

    def wait_run(self, run: str, *, seconds: float = 300, scenario: str = "default") -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = self.get(f"/reef/scenarios/{scenario}/runs/{run}")
            state: dict[str, Any] = answer.get("run", answer)
            if state["ended_at"]:
                return state
            time.sleep(0.1)
        raise TimeoutError(f"the run {run} did not end within {seconds} s")

    def fsck(self) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "daemon", "fsck", "--home", str(self.root)]
        return subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)

    def cli(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "reef_cli.main", *arguments]
        return subprocess.run(
            command, env=self.environment(), cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )

    def _ready(self) -> bool:
        try:
            running = json.loads(self.home.lock.read_text())
            if running["pid"] != self.pid:
                return False
            self.url = f"http://{running['host']}:{running['port']}"
            return self.http.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except (OSError, ValueError, KeyError, httpx.HTTPError):
            return False

    def _json(self, response: httpx.Response) -> Any:
        if response.status_code >= 400:
            raise RuntimeError(f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text}")
        return response.json()
