"""`reef-pi` starts Reef's pi with Reef's settings, whatever the folders are called."""

from __future__ import annotations

import subprocess
from pathlib import Path

from adapters.pi.headless import run_headless
from daemon.harness.adapter import HeadlessTask
from daemon.harness.launcher import launcher_script
from daemon.harness.runtime import Program
from daemon.harness.served import SERVED, served_line, tell_agents


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


def test_another_model_window_or_port_is_told_in_one_line_and_stops_nothing(tmp_path: Path) -> None:
    program = scripted(tmp_path / "runtime", 'echo "started ${_reef_served-clean}"')
    agents = tmp_path / "it's $HOME"
    agents.mkdir()
    line = served_line("http://localhost:8900", "it's a model\x1b[2J", 8192)
    assert line is not None
    launcher = tmp_path / "reef-pi"
    launcher.write_text(launcher_script("pi", "pi", program, {"A": "b"}, served=(agents / SERVED, line)))
    launcher.chmod(0o755)

    def started() -> str:
        answer = subprocess.run([str(launcher)], capture_output=True, text=True, check=True)
        assert answer.stdout == "started clean\n"
        return answer.stderr

    assert started() == "", "the daemon has not said yet what it serves"
    tell_agents(agents, "http://127.0.0.1:8900", "it's a model\x1b[2J", 8192)
    assert started() == "", "it serves what the agent was told of"
    for port, model, window in ((8901, "it's a model\x1b[2J", 8192), (8900, "another", 8192), (8900, "it's a model\x1b[2J", 4096)):
        tell_agents(agents, f"http://127.0.0.1:{port}", model, window)
        told = started()
        assert told.count("\n") == 1 and "\x1b" not in told and f"port {port}" in told and "reef update pi" in told
    tell_agents(agents, "https://reef.example.org", "another", 8192)
    assert started() == "", "a daemon that is reached elsewhere tells nothing here"


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
