"""0 done, 1 what the user can mend, 3 a bug with a log, 130 Ctrl-C; each error says what to type next."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from daemon import __version__
from daemon.errors import Conflict
from reef_cli import error_handler


def app_that(raises: BaseException):
    def build(verb: str) -> typer.Typer:
        app = typer.Typer(pretty_exceptions_enable=False)

        @app.command()
        def undo() -> None:
            raise raises

        return app

    return build


def test_a_mendable_error_is_two_lines_and_code_1(capsys) -> None:
    assert error_handler.run(app_that(Conflict("The head moved.", "reef releases")), []) == 1
    assert capsys.readouterr().err == "Error: The head moved.\n  reef releases\n"


def test_what_an_error_repeats_cannot_steer_the_terminal(capsys) -> None:
    assert error_handler.run(app_that(Conflict("There is no \x1b[31mrelease\x07:\n  AGENTS.md", "reef \x9bx")), []) == 1
    assert capsys.readouterr().err == "Error: There is no �[31mrelease�:\n  AGENTS.md\n  reef �x\n"


def test_a_bug_is_code_3_and_leaves_a_log_ready_to_paste(capsys, home) -> None:
    assert error_handler.run(app_that(ZeroDivisionError("division by zero")), []) == 3
    said = capsys.readouterr().err
    assert "this is a bug in Reef: ZeroDivisionError" in said
    (log,) = home.log.parent.glob("reef-error-*.log")
    assert str(log) in said
    assert "Traceback" in log.read_text()
    assert __version__ in log.read_text()


def test_a_bug_is_told_even_where_the_home_cannot_be_written(capsys, monkeypatch) -> None:
    monkeypatch.setenv("REEF_HOME", "/proc/nowhere")
    assert error_handler.run(app_that(KeyError("x")), []) == 3
    assert "reef-error-" in capsys.readouterr().err


def test_ctrl_c_is_130(capsys) -> None:
    assert error_handler.run(app_that(KeyboardInterrupt()), []) == 130


@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        (["sttus"], "Did you mean 'status'?", "reef --help"),
        (["logs", "--lies"], "--lines", "reef logs --help"),
        (["config", "chek"], "'chek' is not one of", "reef config --help"),
        (["show"], "Missing argument", "reef show --help"),
        (["releases", "-n", "0"], "greater than or equal to 1", "reef releases --help"),
        (["status"], "No daemon runs", "reef init, then reef up"),
        (["logs"], "There is no log yet", "reef up"),
        (["serve", "-c", "nothing.yaml"], "There is no file", "serve.yaml"),
        (["good", "rec_1", "--session", "ses_1"], "judged as a whole", "--session"),
        (["runs", "--cancel"], "Which run is meant?", "reef runs RUN --cancel"),
        (["init", "--engine", "gpt"], "no engine that Reef knows", "embedded"),
        (["init", "--engine", "http://127.0.0.1:1/v1"], "needs the model's name", "--model NAME"),
        (["install", "emacs"], "no adapter named 'emacs'", "pi"),
    ],
)
def test_a_mistake_is_code_1_and_says_what_to_type(reef, arguments: list[str], sentence: str, hint: str) -> None:
    result = reef(*arguments)
    assert result.code == 1
    assert sentence in result.err
    assert hint in result.err.split("\n", 1)[1]
    assert "Traceback" not in result.err


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -P -m reef_cli.main config show | true"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=30)
    assert result.stderr == ""


def test_the_version_is_printed(reef) -> None:
    result = reef("--version")
    assert (result.code, result.out.strip()) == (0, f"reef {__version__}")
