"""`reef logs` shows the end of the log, however long it is."""

from __future__ import annotations


def test_the_last_lines_are_shown(reef, home) -> None:
    home.log.parent.mkdir(parents=True)
    home.log.write_text("".join(f"line {number} {'x' * 100}\n" for number in range(5000)))
    out = reef("logs", "-n", "3").out.splitlines()
    assert [line.split()[1] for line in out] == ["4997", "4998", "4999"]
    assert reef("logs", "-n", "0").out == ""
    home.log.write_text("only\x1b[2J\n")
    assert reef("logs").out == "only�[2J\n"
