"""install, update and uninstall killed with -9 at each step: the agent that was there works, and the same command again completes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.pi.runtime import PI
from daemon.failpoints import INSTALL_FAILPOINTS, UNINSTALL_FAILPOINTS
from daemon.files import sha256_file
from daemon.harness.installed import read_manifest
from daemon.paths import Home
from tests.adapters.contract import NPM
from tests.cli.conftest import Result, StandIn

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
Reef = Callable[..., Result]
OLD = {"AGENTS.md": "- old\n", "skills/gone/SKILL.md": "---\nname: gone\ndescription: d\n---\nold\n"}
NEW = {"AGENTS.md": "- new\n", "skills/came/SKILL.md": "---\nname: came\ndescription: d\n---\nnew\n"}
INSTALLING = (*INSTALL_FAILPOINTS, "install.put-one:5")


class Scene:
    """A user's home with an npm, and a daemon that serves a release."""

    def __init__(self, reef: Reef, home: Home, daemon: StandIn, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reef, self.home, self.daemon = reef, home, daemon
        self.place, self.bin = home.agents / "pi", folder / "user" / ".local" / "bin"
        self.bin.mkdir(parents=True)
        npm = folder / "programs" / "npm"
        npm.parent.mkdir()
        npm.write_text(NPM.format(version=PI.version, command=PI.command))
        npm.chmod(0o755)
        node = npm.with_name("node")
        node.write_text("#!/bin/sh\necho v20.0.0\n")  # too old for pi: another is fetched
        node.chmod(0o755)
        monkeypatch.setenv("HOME", str(folder / "user"))
        monkeypatch.setenv("PATH", os.pathsep.join((str(self.bin), str(npm.parent), "/usr/bin", "/bin")))
        daemon.answer("GET /reef/status", {"engine": {"model": "small", "context_tokens": 32_768}, "scenarios": []})
        daemon.answer("POST /reef/scenarios", {"name": "pi"})
        self.serve("r2", OLD)

    def serve(self, release: str, files: dict[str, str]) -> None:
        self.daemon.answer("GET /reef/harness", {"release_id": release, "files": {**files}})

    def killed(self, command: str, point: str) -> bool:
        """Whether `reef COMMAND pi` came to `point` and was killed there."""
        typed = [sys.executable, "-P", "-m", "reef_cli.main", command, "pi"]
        env = {**os.environ, "REEF_FAILPOINT": point}
        done = subprocess.run(typed, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode == -9

    def check_whole(self, release: str, files: dict[str, str]) -> None:
        manifest = read_manifest(self.place)
        assert manifest is not None and manifest.release_id == release
        assert all(sha256_file(self.place / path) == digest for path, digest in manifest.files.items())
        assert {path: (self.place / "agent" / path).read_text() for path in files} == files
        left = {path.name for path in self.place.iterdir()} - {"agent", "bin", "runtime", "installed.json", "harness.json"}
        assert not left and not list((self.place / "runtime").glob(".*"))
        self.check_starts()
        assert (self.bin / "reef-pi").resolve() == self.place / "bin" / "reef-pi"

    def check_starts(self) -> None:
        done = subprocess.run([str(self.place / "bin" / "reef-pi"), "--version"], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and PI.version in done.stdout, done.stderr

    def check_gone(self) -> None:
        assert not self.place.exists() and not (self.bin / "reef-pi").is_symlink()

    def does(self, *typed: str) -> None:
        done = self.reef(*typed)
        assert done.code == 0, done.err


@pytest.fixture
def scene(reef: Reef, home: Home, daemon: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(reef, home, daemon, tmp_path, monkeypatch)


def test_a_first_installation(scene: Scene) -> None:
    for point in INSTALLING:
        for again in ("install", "uninstall"):
            assert scene.killed("install", point), point
            if again == "install":
                scene.does("install", "pi")
                scene.check_whole("r2", OLD)
            scene.does("uninstall", "pi")
            scene.check_gone()


def test_an_update(scene: Scene) -> None:
    scene.does("install", "pi")
    for number, point in enumerate(point for point in INSTALLING if "fetched" not in point):
        last, files = (OLD, NEW) if number % 2 == 0 else (NEW, OLD)
        scene.serve(f"r{number + 3}", files)
        assert scene.killed("update", point), point
        assert (scene.place / "agent" / "AGENTS.md").read_text() in (last["AGENTS.md"], files["AGENTS.md"])
        scene.check_starts()
        scene.does("update", "pi")
        scene.check_whole(f"r{number + 3}", files)
        assert not any((scene.place / "agent" / path).exists() for path in last.keys() - files.keys())
    asked = {path for _, path, _, _ in scene.daemon.asked}
    assert not any(path.endswith("/harness") and "scenarios" in path for path in asked), "nothing of it was taken for a person's"


def test_a_removal(scene: Scene) -> None:
    for point in (*UNINSTALL_FAILPOINTS, "uninstall.removed-one:3"):
        for again in ("uninstall", "install"):
            scene.does("install", "pi")
            assert scene.killed("uninstall", point), point
            scene.does(again, "pi")
            if again == "install":
                scene.check_whole("r2", OLD)
            else:
                scene.check_gone()
