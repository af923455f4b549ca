"""What goes wrong with an agent's installation is one clear error, and what was there before still works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from adapters.pi.adapter import PiAdapter
from adapters.pi.runtime import PI
from daemon.harness import adapter as adapters
from daemon.harness import runtime
from daemon.harness.adapter import InstallContext, Present, Rendering
from daemon.harness.installing import held
from daemon.paths import Home
from tests.adapters.contract import NPM
from tests.cli.conftest import Result, StandIn

Reef = Callable[..., Result]


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: StandIn) -> Path:
    """An npm that makes a pi, first on the path; and a daemon with one release."""
    folder = tmp_path / "programs"
    folder.mkdir()
    script(folder / "npm", NPM.format(version=PI.version, command=PI.command))
    monkeypatch.setenv("PATH", os.pathsep.join((str(folder), "/usr/bin", "/bin")))
    daemon.answer("GET /reef/status", {"engine": {"model": "small", "context_tokens": 32_768}, "scenarios": []})
    daemon.answer("POST /reef/scenarios", {"name": "pi"})
    daemon.answer("GET /reef/harness", {"release_id": "r2", "files": {"AGENTS.md": "- a\n"}})
    return folder / "npm"


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def texts(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def started(home: Home) -> str:
    """What the installed pi answers."""
    launcher = home.agents / "pi" / "bin" / "reef-pi"
    return subprocess.run([str(launcher), "--version"], capture_output=True, text=True, check=True).stdout.split()[0]


def newer(monkeypatch: pytest.MonkeyPatch, npm: Path, version: str = "1.9.0", answers: str = "") -> None:
    """Reef wants another pi from now on; npm brings one that answers `answers`."""
    monkeypatch.setattr(PiAdapter, "package", runtime.Package(PI.name, PI.command, version, (1, 8, 0), (2, 0, 0), PI.node))
    script(npm, NPM.format(version=answers or version, command=PI.command))


def test_without_npm_it_is_said_what_to_install(reef: Reef, home: Home, npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(npm.parent))
    npm.unlink()
    done = reef("install", "pi")
    assert done.code == 1 and "npm was not found" in done.err and "Install Node.js with npm" in done.err
    assert not (home.agents / "pi").exists()


def test_without_a_network_the_log_is_named_and_the_old_one_works(
    reef: Reef, home: Home, npm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reef("install", "pi").code == 0
    before = texts(home.agents / "pi" / "agent")
    newer(monkeypatch, npm)
    script(npm, "#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n")
    for command in ("install", "update"):
        done = reef(command, "pi")
        log = home.agents / "pi" / "runtime" / "install.log"
        assert done.code == 1 and f"Read {log}; is the network there?" in done.err and "ENOTFOUND" in log.read_text()
    assert texts(home.agents / "pi" / "agent") == before and started(home) == PI.version
    assert not list((home.agents / "pi" / "runtime").glob(".*")), "half of a download"


def test_a_version_outside_the_range_is_refused_and_the_old_one_works(
    reef: Reef, home: Home, npm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reef("install", "pi").code == 0
    newer(monkeypatch, npm, answers="3.0.0")
    done = reef("update", "pi")
    assert done.code == 1 and "pi answers '3.0.0' instead of a version that is 1.8 or later, below 2" in done.err, done.err
    assert started(home) == PI.version
    script(npm.parent / "pi", "#!/bin/sh\necho 3.0.0\n")
    newer(monkeypatch, npm)
    assert reef("update", "pi").code == 0 and started(home) == "1.9.0", "the user's own is too new, so one is fetched beside it"


@pytest.mark.skipif(
    shutil.which("bwrap") is None
    or subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs bubblewrap: root may write wherever modes forbid it, so the folder is mounted read-only",
)
def test_a_home_that_cannot_be_written_to_is_named(reef: Reef, home: Home, npm: Path) -> None:
    assert reef("install", "pi").code == 0
    before = texts(home.agents)
    sealed = ["bwrap", "--bind", "/", "/", "--ro-bind", str(home.agents), str(home.agents), "--dev", "/dev"]
    for command in ("install", "update", "uninstall"):
        typed = [sys.executable, "-P", "-m", "reef_cli.main", command, "pi"]
        done = subprocess.run([*sealed, *typed], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
        assert done.returncode == 1 and str(home.agents / "pi") in done.stderr and "Read-only" in done.stderr, done.stderr
    assert texts(home.agents) == before and started(home) == PI.version


@pytest.mark.parametrize("link", ["agent/AGENTS.md", "agent/skills", "bin/reef-pi", "installed.json", ""])
def test_a_link_where_something_of_ours_should_be_is_refused_and_not_followed(
    reef: Reef, home: Home, npm: Path, tmp_path: Path, daemon: StandIn, link: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("theirs")
    place = home.agents / "pi" / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside if link in ("", "agent/skills") else outside / "theirs")
    daemon.answer("GET /reef/harness", {"release_id": "r2", "files": {"AGENTS.md": "- a\n", "skills/x/SKILL.md": "---\nname: x\n---\n"}})
    done = reef("install", "pi")
    assert done.code == 1 and "Error: " in done.err and str(place) in done.err, done.err
    assert texts(outside) == {str(outside / "theirs"): "theirs"} and place.is_symlink()


def test_the_second_of_two_at_once_is_told_to_wait(reef: Reef, home: Home, npm: Path) -> None:
    assert reef("install", "pi").code == 0
    before = texts(home.agents)
    with held(home.agents / "pi"):
        for command in ("install", "update", "uninstall"):
            done = reef(command, "pi")
            assert done.code == 1 and "Another installation is writing" in done.err and "try again" in done.err
    assert texts(home.agents) == before


@pytest.fixture
def running_pi(home: Home, reef: Reef, npm: Path) -> Iterator[subprocess.Popen[str]]:
    """A pi that runs, and reads its own files whenever it is spoken to."""
    speaks = 'while read -r x; do cat "$0" >/dev/null && echo fine; done'
    pi = f"#!/bin/sh\ncase $1 in --version) echo {PI.version};; *) {speaks};; esac\n"
    (npm.parent / "made").write_text(pi)
    made = NPM.format(version=PI.version, command=PI.command).splitlines()
    made[3] = f'cp {npm.parent / "made"} "$3/node_modules/.bin/pi"'
    script(npm, "\n".join(made) + "\n")
    assert reef("install", "pi").code == 0
    launcher = home.agents / "pi" / "bin" / "reef-pi"
    process = subprocess.Popen([str(launcher)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()


def test_one_that_runs_keeps_its_program_until_it_has_ended(
    reef: Reef, home: Home, npm: Path, running_pi: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer(running_pi) == "fine"
    newer(monkeypatch, npm)
    assert reef("update", "pi").code == 0 and started(home) == "1.9.0"
    assert answer(running_pi) == "fine", "its files are there still"
    folder = home.agents / "pi" / "runtime"
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {PI.version, "1.9.0"}
    running_pi.kill()
    running_pi.wait()
    assert reef("update", "pi").code == 0
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"1.9.0"}


def test_one_that_runs_and_does_not_answer_its_version_is_not_pulled_from_under_it(
    reef: Reef, home: Home, npm: Path, running_pi: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_version_of", lambda *_: "")  # a machine that is busy
    done = reef("update", "pi")
    assert done.code == 1 and "runs, but does not answer" in done.err, done.err
    assert answer(running_pi) == "fine"


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("?\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


class Theirs(PiAdapter):
    """An adapter that somebody else wrote. What is wrong with it is in the classes below."""

    name = "theirs"


class Outside(Theirs):
    reads = ("../",)


class Unfinished(adapters.Adapter):
    name, title, versions, reads = "theirs", "x", "x", ()


class Nameless(Theirs):
    name = "other"


class Fails(Theirs):
    def render(self, context: InstallContext, present: Present) -> Rendering:
        raise ZeroDivisionError("of theirs")


class Escapes(Theirs):
    def render(self, context: InstallContext, present: Present) -> Rendering:
        return Rendering({"../../../escaped": "x"})


class NoText(Theirs):
    def render(self, context: InstallContext, present: Present) -> Rendering:
        return Rendering({"AGENTS.md": 7})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("nowhere.at.all:Adapter", "cannot be loaded: No module named 'nowhere'"),
        ("tests.cli.test_agents_bad_input:Nothing", "cannot be loaded"),
        ("tests.cli.test_agents_bad_input:Home", "is no Adapter class"),
        ("tests.cli.test_agents_bad_input:Unfinished", "does not say detect, install, launch"),
        ("tests.cli.test_agents_bad_input:Nameless", "calls itself 'other'"),
        ("tests.cli.test_agents_bad_input:Outside", "reads a path that it must not"),
        ("tests.cli.test_agents_bad_input:Fails", "The adapter 'theirs' failed: ZeroDivisionError: of theirs."),
        ("tests.cli.test_agents_bad_input:Escapes", "has an empty, `.` or `..` part"),
        ("tests.cli.test_agents_bad_input:NoText", "The adapter 'theirs' failed: AttributeError"),
    ],
)
def test_an_adapter_that_somebody_wrote_wrongly_is_named_and_harms_nothing(
    reef: Reef, home: Home, npm: Path, monkeypatch: pytest.MonkeyPatch, value: str, says: str
) -> None:
    points = [EntryPoint("theirs", value, "reef.adapters"), EntryPoint("pi", "adapters.pi.adapter:PiAdapter", "reef.adapters")]
    monkeypatch.setattr(adapters, "entry_points", lambda group: points)
    done = reef("install", "theirs")
    assert done.code == 1 and says in done.err and "bug in Reef" not in done.err, done.err
    assert "author" in done.err or "mend" in done.err or "Derive" in done.err or "Use a relative path" in done.err
    assert not list(home.root.rglob("escaped*")) and not (home.agents / "theirs").exists()
    listed = reef("adapters")
    assert listed.code == 0 and "reef install pi" in listed.out
