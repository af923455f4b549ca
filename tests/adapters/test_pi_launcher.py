"""`reef-pi` starts Reef's pi with Reef's settings, whatever the folders are called."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from adapters.pi.headless import run_headless
from daemon.harness.adapter import HeadlessTask
from daemon.harness.launcher import Served, launcher_path, launcher_script
from daemon.harness.runtime import Program
from daemon.harness.served import SERVED, served_line, tell_agents, tell_no_more


def scripted(folder: Path, script: str) -> Program:
    """A pi that is a shell script."""
    folder.mkdir(parents=True)
    program = Program(folder / "pi", "1.6.0", folder / "node" / "bin")
    program.command.write_text(f"#!/bin/sh\n{script}\n")
    program.command.chmod(0o755)
    return program


def test_arguments_and_folder_names_with_spaces_arrive(tmp_path: Path) -> None:
    program = scripted(tmp_path / "it's here", 'echo "$PI_CODING_AGENT_DIR|$1|$3|${PATH%%:*}"')
    launcher = tmp_path / "reef-pi"
    launcher.write_text(launcher_script("pi", "pi", program, {"PI_CODING_AGENT_DIR": "the $agent folder"}, ["--offline"]))
    launcher.chmod(0o755)
    subprocess.run(["sh", "-n", str(launcher)], check=True)
    answer = subprocess.run([str(launcher), "-p", "say $HOME"], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == f"the $agent folder|--offline|say $HOME|{program.node_bin}"


def test_a_token_is_read_when_the_agent_starts(tmp_path: Path) -> None:
    program = scripted(tmp_path / "runtime", 'echo "$TOKEN|"')
    token, launcher = tmp_path / "it's a token", tmp_path / "reef-pi"
    launcher.write_text(launcher_script("pi", "pi", program, {}, read={"TOKEN": token}))
    launcher.chmod(0o755)
    for text in ("rf_one", "rf_two\n"):
        token.write_text(text)
        assert subprocess.run([str(launcher)], capture_output=True, text=True, check=True).stdout == f"{text.strip()}|\n"


@dataclass
class Stale:
    """A launcher whose agent prints a line, what the daemon serves, and a `reef update` that is a shell script."""

    place: Path
    launcher: Path
    line: str

    def serve(self, url: str, model: str, window: int) -> None:
        tell_agents(self.place, url, model, window)

    def started(self) -> str:
        """What it says on stderr."""
        answer = subprocess.run([str(self.launcher), "it's me"], capture_output=True, text=True, check=True)
        assert answer.stdout == "started clean, it's me\n", "the agent is started in any case, and gets nothing of the launcher's"
        return answer.stderr

    def renewal(self, script: str) -> None:
        renewing = self.place.parent / "python"
        renewing.write_text(f"#!/bin/sh\n{script}\n")
        renewing.chmod(0o755)

    def write(self, line: str) -> str:
        program = Program(self.place / "runtime" / "pi", "1.6.0", None)
        text = launcher_script("pi", "pi", program, {"A": "b"}, served=Served(self.place / SERVED, line, self.place.parent))
        self.launcher.write_text(text)
        self.launcher.chmod(0o755)
        return text


@pytest.fixture
def stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stale:
    place = tmp_path / "it's $HOME" / "agents"
    scripted(place / "runtime", 'echo "started ${_reef_served-clean}${REEF_RENEWED-}, $1"')
    launcher = launcher_path(place / "pi", "pi")
    launcher.parent.mkdir(parents=True)
    line = served_line("http://localhost:8900", "it's a model\x1b[2J", 8192)
    assert line is not None
    monkeypatch.setattr(sys, "executable", str(place.parent / "python"))
    made = Stale(place, launcher, line)
    made.renewal("exit 1")
    made.write(line)
    return made


def test_another_model_window_or_port_that_cannot_be_taken_over_is_one_line_and_stops_nothing(stale: Stale) -> None:
    assert stale.started() == "", "the daemon has not said yet what it serves"
    stale.serve("http://127.0.0.1:8900", "it's a model\x1b[2J", 8192)
    assert stale.started() == "", "it serves what the agent was told of"
    for port, model, window in ((8901, "it's a model\x1b[2J", 8192), (8900, "another", 8192), (8900, "it's a model\x1b[2J", 4096)):
        stale.serve(f"http://127.0.0.1:{port}", model, window)
        told = stale.started()
        assert told.count("\n") == 1 and "\x1b" not in told and f"port {port}" in told and "reef update pi" in told
    tell_no_more(stale.place)
    assert stale.started() == "", "nothing serves: nobody is to be asked"
    stale.serve("https://reef.example.org", "another", 8192)
    assert stale.started() == "", "a daemon that is reached elsewhere tells nothing here"


def test_what_is_out_of_date_is_renewed_once_and_the_agent_starts_with_it(stale: Stale) -> None:
    stale.serve("http://127.0.0.1:8900", "another", 8192)
    stale.renewal('echo "$*, home $REEF_HOME"; echo "a reason" >&2')
    told = stale.started().splitlines()
    assert told[0] == f"-P -m reef_cli.main update pi --model-only, home {stale.place.parent}"
    assert len(told) == 2 and "reef update pi" in told[1], "it did not help: said once, and not tried for ever"
    new = stale.place.parent / "new"
    line = served_line("http://127.0.0.1:8900", "another", 8192)
    assert line is not None
    new.write_text(stale.write(line))
    stale.write(stale.line)
    new.chmod(0o755)
    stale.renewal(f"echo renewed; mv {shlex.quote(str(new))} {shlex.quote(str(stale.launcher))}")
    assert stale.started() == "renewed\n"
    assert stale.started() == ""


def test_what_serves_is_told_only_where_agents_are(tmp_path: Path) -> None:
    tell_agents(tmp_path / "agents", "http://127.0.0.1:8900", "m", 8192)
    assert not (tmp_path / "agents").exists()


def test_a_task_gets_its_prompt_and_no_variable_of_ours(tmp_path: Path) -> None:
    reply = '{"type":"text","text":"%s in %s %s"}'
    script = f"""prompt=$(cat)
printf '{{"type":"message_end","message":{{"role":"assistant","content":[{reply}]}}}}\\n' "$prompt" "$(basename "$PWD")" "$HOME"
echo '{{"type":"agent_settled","aborted":false}}'"""
    runtime = scripted(tmp_path / "runtime", script)
    copy = tmp_path / "copy"
    copy.mkdir()
    task = HeadlessTask("@do -it", copy, timeout_s=20, environment={"PATH": "/usr/bin:/bin"})
    outcome = run_headless(runtime, {}, task)
    assert (outcome.exit_code, outcome.text, outcome.details["error"]) == (0, "@do -it in copy ", "")


def test_a_task_is_over_when_pi_is_whatever_it_left_in_the_background(tmp_path: Path) -> None:
    """A development server that pi started must neither hold the task open nor live on."""
    marker = tmp_path / "alive"
    script = f"""(while :; do date +%s%N > {marker}; sleep 0.1; done) &
while [ ! -s {marker} ]; do sleep 0.05; done
echo '{{"type":"agent_settled","aborted":false}}'"""
    runtime = scripted(tmp_path / "runtime", script)
    outcome = run_headless(runtime, {}, HeadlessTask("x", tmp_path, timeout_s=20, environment={"PATH": "/usr/bin:/bin"}))
    assert (outcome.timed_out, outcome.exit_code) == (False, 0)
    stamp = marker.read_text()
    subprocess.run(["sleep", "0.5"], check=True)
    assert marker.read_text() == stamp, "what pi started is still running"


def test_a_task_that_hangs_is_ended_with_everything_that_it_started(tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    runtime = scripted(tmp_path / "runtime", f"(while :; do date +%s%N > {marker}; sleep 0.1; done) & sleep 600")
    outcome = run_headless(runtime, {}, HeadlessTask("x", tmp_path, timeout_s=1, environment={"PATH": "/usr/bin:/bin"}))
    assert outcome.timed_out and outcome.exit_code != 0
    stamp = marker.read_text()
    subprocess.run(["sleep", "0.5"], check=True)
    assert marker.read_text() == stamp, "what pi started is still running"
