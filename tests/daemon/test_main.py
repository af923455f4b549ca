"""What `python -P -m daemon` says when it cannot go on: the same two lines, exit codes and logs as `reef`."""

from __future__ import annotations

from pathlib import Path

import pytest

import daemon.__main__ as entry
from daemon.paths import Home


def test_what_the_user_can_mend_is_an_error_with_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["fsck", "--home", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("Error: There is nothing of Reef's in ")
    (tmp_path / "config.yaml").write_text("server:\n  prot: 1\n")
    assert entry.main(["serve", "--home", str(tmp_path)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == [f"Error: {tmp_path}/config.yaml:2: unknown setting 'server.prot'.", "  Did you mean 'port'?"]


@pytest.mark.parametrize(("raised", "code"), [(ZeroDivisionError("by zero"), 3), (KeyboardInterrupt(), 130), (BrokenPipeError(), 0)])
def test_a_bug_leaves_a_log_in_the_home_and_no_other_end_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
) -> None:
    def fails(*_: object, **__: object) -> int:
        raise raised

    monkeypatch.setattr(entry, "_doctor", fails)
    monkeypatch.setattr(entry, "reader_gone", lambda: 0)  # it closes the stdout that the tests share
    assert entry.main(["doctor", "--home", str(tmp_path)]) == code
    logs = list(Home(tmp_path).log.parent.glob("reef-error-*.log"))
    said = capfd.readouterr().err
    assert "Traceback" not in said
    if code != 3:
        assert not logs
        return
    assert "Error: this is a bug in Reef: ZeroDivisionError: by zero" in said and str(logs[0]) in said
    assert "Traceback" in logs[0].read_text() and "command: python -P -m daemon doctor" in logs[0].read_text()
