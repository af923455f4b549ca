"""`reef up` says why a daemon did not start."""

from __future__ import annotations

from pathlib import Path

from reef_cli.commands.up import _failed, _told


def test_reef_up_repeats_the_error_of_a_daemon_that_could_not_start(tmp_path: Path) -> None:
    said = tmp_path / "up.log"
    said.write_text("Reef loads the model\nError: Port 8900 is in use.\n  Choose another with --port.\nsome noise\n")
    error = _failed(said)
    assert (error.message, error.hint) == ("Port 8900 is in use.", "Choose another with --port.")
    said.write_text("Traceback (most recent call last):\nImportError: no uvloop\n")
    assert _failed(said).message == "The daemon ended at its start: ImportError: no uvloop"


def test_reef_up_shows_what_a_long_start_is_at(tmp_path: Path) -> None:
    said = tmp_path / "up.log"
    said.write_text("some noise\n")
    assert _told(said) == ""
    said.write_text("Starting: checking the database, table 1 of 9 …\nStarting: checking the database, table 4 of 9 …\n")
    assert _told(said) == "checking the database, table 4 of 9"
