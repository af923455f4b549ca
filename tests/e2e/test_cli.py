"""The command line against the real daemon with the embedded model: what a first user types, in order."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from daemon.paths import Home

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


class Shell:
    """A terminal with a home of its own."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.environment: Mapping[str, str] = {**os.environ, "REEF_HOME": str(root), "REEF_SERVER_PORT": "0"}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run `reef`; what it printed, stdout and stderr together."""
        command = [sys.executable, "-P", "-m", "reef_cli.main", *arguments]
        done = subprocess.run(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == code, f"reef {' '.join(arguments)}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def json(self, *arguments: str) -> dict:
        return json.loads(self(*arguments, "--json"))

    def chat(self, text: str) -> httpx.Response:
        facts = json.loads(self.home.lock.read_text())
        body = {"model": self.json("status")["engine"]["model"], "messages": [{"role": "user", "content": text}], "max_tokens": 8}
        headers = {"authorization": f"Bearer {self.home.client_token.read_text().strip()}"}
        return httpx.post(f"http://127.0.0.1:{facts['port']}/v1/chat/completions", json=body, headers=headers, timeout=60, trust_env=False)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    root = Path(tempfile.mkdtemp(prefix="reef-cli-"))
    reef = Shell(root / "home")
    try:
        reef("init", "--yes")
        reef("up")
        yield reef
    finally:
        reef("down")
        shutil.rmtree(root)


def test_the_daemon_is_up_and_a_second_start_says_who_runs(shell: Shell) -> None:
    facts = json.loads(shell.home.lock.read_text())
    assert f"already runs: process {facts['pid']}" in shell("up")
    assert f"{facts['pid']}" in shell("serve", code=1)
    assert "smollm2" in shell("status")
    assert "The daemon runs" in shell("doctor")


def test_a_reply_is_recorded_listed_and_judged(shell: Shell) -> None:
    answer = shell.chat("Name a colour.")
    receipt = answer.headers["x-reef-agent-record-id"]
    (session,) = shell.json("sessions", "-q", "colour")["sessions"]
    shown = shell("session", session["id"])
    assert "Name a colour." in shown
    assert receipt in shown
    assert receipt in shell("good", "--last", "nice")
    assert receipt in shell("bad", receipt, "--correction", "Blue.")
    assert shell("session", session["id"]).count("report: score") == 2


def test_a_wrong_receipt_is_refused(shell: Shell) -> None:
    said = shell("good", "rec_00000000000000000000000000", code=1)
    assert said.startswith("Error: ")


def test_the_first_release_is_listed_and_shown(shell: Shell) -> None:
    assert "● serving" in shell("releases")
    assert "r1" in shell("show", "r1")
    assert shell("show", "head").startswith("r1 · ● serving")
    assert "same content" in shell("diff", "r1", "head")
    assert "No release of 'default' holds these words." in shell("why", "use tabs", code=1)
    page = shell.home.root / "r1.html"
    assert str(page) in shell("explain", "r1", "-o", str(page)) and "the base model" in page.read_text()
    shell("show", "r999", code=1)
    assert "r1 is the first release" in shell("show", "head~1", code=1)
    assert "Error: " in shell("rollback", "r1", code=1), "an operation that would change nothing is refused"
    assert "Error: " in shell("undo", code=1)


def test_a_run_without_enough_experience_says_so(shell: Shell) -> None:
    said = shell("evolve", "--recipe", "demos")
    assert "not enough" in said
    assert "demos" in shell("runs")
    said = shell("evolve", "--recipe", "demoz", code=1)
    assert "demos" in said, "the nearest known name"


def test_fsck_is_clean_while_the_daemon_runs(shell: Shell) -> None:
    shell("fsck")


def test_a_port_in_use_is_a_sentence(shell: Shell, tmp_path: Path) -> None:
    other = Shell(tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = other("up", "--port", port, code=1)
    assert port in said
    assert "Traceback" not in said
