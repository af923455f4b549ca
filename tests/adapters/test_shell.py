"""Every shell script of the project is plain sh and gives shellcheck no cause; the launcher of each agent is asked by its contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.api.harness_install import install_script
from daemon.harness.launcher import Served, launcher_script
from daemon.harness.runtime import Program
from tests.adapters.scripts import check_script

ROOT = Path(__file__).parents[2]
HARD = 'it\'s a $HOME `x` "y" %s\\n'


@pytest.mark.parametrize("script", ["install.sh", ".ci/run"])
def test_the_projects_own(script: str) -> None:
    check_script(ROOT / script)


def test_the_script_that_is_piped_into_a_shell(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(install_script("pi", "/usr/bin/it's python", Path(HARD), ["pi", "--release", "r2"]))
    check_script(path)


def test_a_launcher_with_everything_in_it(tmp_path: Path) -> None:
    program = Program(Path(HARD) / "pi", "1", Path(HARD))
    path = tmp_path / "launcher"
    path.write_text(
        launcher_script(
            "pi",
            "pi",
            program,
            {"A": HARD, "B": "-x"},
            ["--offline", HARD],
            served=Served(Path(HARD) / "agents" / "served", HARD, Path(HARD)),
            read={"TOKEN": Path(HARD)},
            displaced=("A",),
            folder="REEF_CWD",
        )
    )
    check_script(path)
