"""The folder where an agent is started goes into a header, whatever it is called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from daemon.harness.launcher import launcher_script, plain_folder
from daemon.harness.runtime import Program


@pytest.mark.parametrize("name", ["it's plain (1)", "wörk 100%", "日本\t"])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_it_is_told_in_ascii_and_can_be_read_back(tmp_path: Path, name: str, locale: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\nprintf "%s" "$REEF_CWD"\n')
    agent.chmod(0o755)
    launcher = tmp_path / "reef-agent"
    launcher.write_text(launcher_script("agent", "agent", Program(agent, "1.0.0", None), {"A": "b"}, folder="REEF_CWD"))
    launcher.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "LANG": locale}
    told = subprocess.run([str(launcher)], cwd=folder, env=environment, capture_output=True, check=True).stdout.decode("ascii")
    assert told == plain_folder(folder) and told.startswith("/")
    assert told.isprintable() and ("%" not in told or name != "it's plain (1)")


def test_it_may_end_what_the_environment_says(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\nprintf "%s" "$HEADERS"\n')
    agent.chmod(0o755)
    launcher = tmp_path / "reef-agent"
    headers = {"HEADERS": "x-who: it's me\nx-cwd: "}
    launcher.write_text(launcher_script("agent", "agent", Program(agent, "1.0.0", None), headers, folder="HEADERS"))
    told = subprocess.run(["sh", str(launcher)], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert told == f"x-who: it's me\nx-cwd: {plain_folder(tmp_path)}"


@pytest.mark.parametrize(("given", "there"), [({"HTTPS_PROXY": "http://p", "NO_PROXY": "a.b"}, "a.b,127.0.0.1,localhost,::1"), ({}, "-")])
def test_a_proxy_of_the_users_is_not_asked_for_this_machine(tmp_path: Path, given: dict[str, str], there: str) -> None:
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\nprintf "%s" "${NO_PROXY--}"\n')
    agent.chmod(0o755)
    launcher = tmp_path / "reef-agent"
    launcher.write_text(launcher_script("agent", "agent", Program(agent, "1.0.0", None), {"A": "b"}))
    environment = {"PATH": "/usr/bin:/bin", **given}
    assert subprocess.run(["sh", str(launcher)], env=environment, capture_output=True, text=True, check=True).stdout == there
