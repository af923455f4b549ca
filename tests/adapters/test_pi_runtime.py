"""Getting pi with the npm of whoever asks for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adapters.pi.runtime import PI, PI_VERSION
from daemon.errors import EngineError, NotFound
from daemon.harness.runtime import Package, Runtime, parse_version

NPM = f"""#!/bin/sh
case $(command -v node) in "$3"/*) echo "Cannot find module 'semver'" >&2; exit 1 ;; esac
mkdir -p "$3/node_modules/node/bin" "$3/node_modules/.bin"
printf '#!/bin/sh\\n' >"$3/node_modules/node/bin/node"
printf '#!/bin/sh\\necho {PI_VERSION}\\n' >"$3/node_modules/.bin/pi"
chmod +x "$3/node_modules/node/bin/node" "$3/node_modules/.bin/pi"
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """First on the path: an npm that works, and a Node that is too old."""
    folder = tmp_path / "programs"
    folder.mkdir()
    program(folder / "npm", NPM)
    program(folder / "node", "#!/bin/sh\necho v20.1.0\n")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_npm_runs_on_the_node_that_it_came_with(tmp_path: Path, programs: Path) -> None:
    """Debian's npm finds its own modules with Debian's Node alone, so Reef's own must not take that one's place."""
    said: list[str] = []
    found = Runtime(tmp_path / "runtime", PI).ensure(said.append)
    assert found.version == PI_VERSION and found.node_bin is not None and len(said) == 2
    assert found.node_bin.is_relative_to(tmp_path / "runtime") and str(found.node_bin) in found.environment({"PATH": "/bin"})["PATH"]


def test_a_node_that_pi_accepts_is_not_fetched_again(tmp_path: Path, programs: Path) -> None:
    program(programs / "node", "#!/bin/sh\necho v24.1.0\n")
    said: list[str] = []
    Runtime(tmp_path / "runtime", PI).ensure(said.append)
    assert not any("Node" in line for line in said)


def test_the_users_own_pi_is_used_where_it_lies_in_the_range_and_never_touched(tmp_path: Path, programs: Path) -> None:
    program(programs / "pi", "#!/bin/sh\necho 1.7.2\n")
    runtime = Runtime(tmp_path / "runtime", PI)
    assert runtime.ensure(pytest.fail).command == programs / "pi"
    program(programs / "pi", "#!/bin/sh\necho 2.0.0\n")
    assert runtime.ensure(lambda line: None).command.is_relative_to(tmp_path / "runtime")
    assert (programs / "pi").read_text().endswith("2.0.0\n")


def test_a_download_that_fails_leaves_the_version_before(tmp_path: Path, programs: Path) -> None:
    runtime = Runtime(tmp_path / "runtime", PI)
    before = runtime.folder / "1.5.0"
    before.mkdir(parents=True)
    program(programs / "npm", "#!/bin/sh\necho no network >&2\nexit 1\n")
    with pytest.raises(EngineError, match="npm could not install"):
        runtime.ensure(lambda line: None)
    assert sorted(path.name for path in runtime.folder.iterdir()) == ["1.5.0", "install.log"]
    assert "no network" in runtime.log.read_text()


def test_no_npm_is_said_with_what_to_install(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match=r"npm was not found.*Install Node\.js"):
        Runtime(tmp_path / "runtime", PI).ensure(lambda line: None)
    assert not (tmp_path / "runtime").exists()


@pytest.mark.parametrize(("answer", "version"), [("codex-cli 0.171.0", (0, 171, 0)), ("2.1.332 (Claude Code)", (2, 1, 332)), ("pi", None)])
def test_versions_are_read_from_what_programs_answer(answer: str, version: tuple[int, int, int] | None) -> None:
    assert parse_version(answer) == version


def test_of_programs_for_kinds_of_machines_the_one_that_starts_here_is_kept(tmp_path: Path, programs: Path) -> None:
    package = Package("agent", "agent", "1.2.3", (1, 0, 0), (2, 0, 0), natives="agent-*/bin/agent")
    answers = {"agent-arm": "exit 1", "agent-linux": "echo 1.2.3; mkdir -p $XDG_DATA_HOME/agent", "agent-linux-old": "echo 1.2.3"}
    lines = [f'mkdir -p "$3/node_modules/{name}/bin" "$3/node_modules/.bin"' for name in answers]
    lines += [
        f'printf \'#!/bin/sh\\n{answer}\\n\' >"$3/node_modules/{name}/bin/agent"; chmod +x "$3/node_modules/{name}/bin/agent"'
        for name, answer in answers.items()
    ]
    program(programs / "npm", "\n".join(["#!/bin/sh", *lines]))
    runtime = Runtime(tmp_path / "runtime", package)
    command = runtime.ensure(lambda line: None).command
    assert command.resolve() == runtime.folder / "1.2.3" / "node_modules" / "agent-linux" / "bin" / "agent"
    assert sorted(path.name for path in (runtime.folder / "1.2.3" / "node_modules").iterdir()) == [".bin", "agent-linux"]
