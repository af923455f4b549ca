"""install, update, uninstall: what a person changed by hand is never lost, and the launcher's link never replaces a file of theirs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.codex.runtime import CODEX
from adapters.pi.runtime import PI
from daemon.harness.noticing import InstalledAgents
from daemon.paths import Home
from daemon.records import JSONObject
from tests.adapters.contract import NPM
from tests.cli.conftest import Result, StandIn

Reef = Callable[..., Result]
SERVES: JSONObject = {"engine": {"model": "small", "context_tokens": 32_768}, "scenarios": []}


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: StandIn) -> Path:
    """`~/.local/bin`, first on a path that has an npm; and a daemon with one release for pi."""
    folder = Path(os.path.expanduser("~")) / ".local" / "bin"
    npm = tmp_path / "programs" / "npm"
    npm.parent.mkdir()
    npm.write_text(NPM.format(version=PI.version, command=PI.command))
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(folder), str(npm.parent), "/usr/bin", "/bin")))
    daemon.answer("GET /reef/status", SERVES)
    daemon.answer("POST /reef/scenarios", {"name": "pi"})
    serve(daemon, "r2", "- a\n")
    return folder


def serve(daemon: StandIn, release: str, rules: str) -> None:
    daemon.answer("GET /reef/harness", {"release_id": release, "files": {"AGENTS.md": rules}})


def test_the_link_is_typed_and_goes_with_the_agent(reef: Reef, home: Home, bin_folder: Path) -> None:
    done = reef("install", "pi")
    assert done.code == 0 and "folder: reef-pi" in done.out, done.err
    assert f"Fetching pi {PI.version}" in done.err, "what takes half a minute is said"
    assert os.readlink(bin_folder / "reef-pi") == str(home.agents / "pi" / "bin" / "reef-pi")
    assert reef("uninstall", "pi").code == 0
    assert not (bin_folder / "reef-pi").is_symlink() and not (home.agents / "pi").exists()


def test_a_file_of_that_name_stays(reef: Reef, home: Home, bin_folder: Path) -> None:
    bin_folder.mkdir(parents=True)
    (bin_folder / "reef-pi").write_text("theirs")
    done = reef("install", "pi")
    assert done.code == 0 and "is not Reef's and stays" in done.out
    reef("uninstall", "pi")
    assert (bin_folder / "reef-pi").read_text() == "theirs"


def test_a_change_by_hand_is_shown_and_published_before_an_update(reef: Reef, home: Home, daemon: StandIn, bin_folder: Path) -> None:
    reef("install", "pi")
    rules = home.agents / "pi" / "agent" / "AGENTS.md"
    rules.write_text("- mine\n")
    [agent] = InstalledAgents(home.agents).look()
    daemon.answer("GET /reef/status", {**SERVES, "agents": [{"name": "pi", "notes": [agent.sentence]}]})
    assert "pi: changed by hand: AGENTS.md (changed); reef update pi keeps it" in reef("status").out
    daemon.answer(f"POST {'/reef/scenarios/pi/harness'}", {"published": True, "head": "r2", "findings": []})
    done = reef("update", "pi")
    assert done.code == 0 and "Yours, now in r2: AGENTS.md (changed)" in done.out, done.err
    sent = [body for method, path, body, _ in daemon.asked if path == "/reef/scenarios/pi/harness"]
    assert sent == [{"files": {"AGENTS.md": "- mine\n"}, "base_release_id": "r2", "note": "in pi coding agent"}]


def test_a_conflict_or_a_finding_leaves_everything_as_it_is_and_discard_says_what_it_drops(
    reef: Reef, home: Home, daemon: StandIn, bin_folder: Path
) -> None:
    reef("install", "pi")
    rules = home.agents / "pi" / "agent" / "AGENTS.md"
    rules.write_text("- mine\n")
    serve(daemon, "r3", "- learned\n")
    refusal = {"error": {"code": "conflict", "message": "the same places:\n  AGENTS.md line 1", "hint": "Look."}}
    daemon.answer("POST /reef/scenarios/pi/harness", refusal, 409)
    done = reef("update", "pi")
    assert done.code == 1 and "AGENTS.md line 1" in done.err and rules.read_text() == "- mine\n"
    finding = {"id": "f1", "path": "AGENTS.md", "line": 1, "span": "curl", "reason": "a new URL"}
    daemon.answer("POST /reef/scenarios/pi/harness", {"published": False, "head": "r3", "findings": [finding]})
    done = reef("update", "pi")
    assert done.code == 1 and "AGENTS.md:1  a new URL" in done.out and "reef update pi --yes" in done.err
    runs = {**finding, "path": "extensions/x.ts", "reason": "an extension", "executable": True}
    daemon.answer("POST /reef/scenarios/pi/harness", {"published": False, "head": "r3", "findings": [finding, runs]})
    done = reef("update", "pi", "--yes")
    assert done.code == 1 and "--yes --accept-executables" in done.err and rules.read_text() == "- mine\n"
    done = reef("update", "pi", "--discard")
    assert done.code == 0 and "Dropped: AGENTS.md (changed)" in done.out and rules.read_text() == "- learned\n"


def test_what_is_installed_and_what_it_cannot_do_is_listed(reef: Reef, bin_folder: Path) -> None:
    assert "Not installed. To have it: reef install pi" in reef("adapters").out
    reef("install", "pi")
    assert f"Installed: {PI.version}, harness of r2" in reef("adapters").out
    assert reef("update", "codex9").code == 1


def test_all_are_updated_though_one_cannot_be(reef: Reef, home: Home, daemon: StandIn, bin_folder: Path, tmp_path: Path) -> None:
    for package in (PI, CODEX):
        (tmp_path / "programs" / "npm").write_text(NPM.format(version=package.version, command=package.command))
        assert reef("install", package.command).code == 0
    (home.agents / "pi" / "agent" / "AGENTS.md").write_text("- mine\n")
    serve(daemon, "r3", "- learned\n")
    refusal: JSONObject = {"error": {"code": "conflict", "message": "the same places:\n  AGENTS.md line 1", "hint": "Look."}}
    daemon.answer("POST /reef/scenarios/pi/harness", refusal, 409)
    done = reef("update")
    assert done.code == 1 and "codex" in done.out and "pi: the same places:\n  AGENTS.md line 1" in done.err
    assert "pi: not updated" in done.err and "reef update pi" in done.err
    assert (home.agents / "codex" / "agent" / "AGENTS.md").read_text() == "- learned\n"
    told = json.loads(reef("update", "--json").out)
    assert told["failed"] == ["pi"] and [one["installed"] for one in told["updated"]] == ["codex"]
