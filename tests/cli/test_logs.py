"""`reef logs` shows the end of the log, however long it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def test_the_last_lines_are_shown(reef, home) -> None:
    home.log.parent.mkdir(parents=True)
    home.log.write_text("".join(f"line {number} {'x' * 100}\n" for number in range(5000)))
    out = reef("logs", "-n", "3").out.splitlines()
    assert [line.split()[1] for line in out] == ["4997", "4998", "4999"]
    assert reef("logs", "-n", "0").out == ""
    home.log.write_text("only\x1b[2J\n")
    assert reef("logs").out == "only�[2J\n"


def test_following_goes_on_while_a_full_log_is_set_aside(reef, home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.log.parent.mkdir(parents=True)
    home.log.write_bytes(b"first\nhalf a \xe2")

    def append() -> None:
        with home.log.open("ab") as stream:
            stream.write(b"\x82\xac\n")

    steps: list[Callable[[], object]] = [append, lambda: home.log.rename(home.log.with_suffix(".1")), lambda: home.log.write_text("new\n")]

    def sleep(seconds: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr("reef_cli.commands.logs.time.sleep", sleep)
    result = reef("logs", "-f", "-n", "1")
    assert result.code == 130
    assert result.out.endswith("new\n")
