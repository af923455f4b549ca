"""`reef logs` shows the end of the log, however long it is."""

from __future__ import annotations

import json
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


def _entry(**fields: object) -> str:
    entry = {
        "time": "2026-11-30T10:00:00.000Z",
        "level": "info",
        "logger": "reef.access",
        "method": "POST",
        "route": "/v1/chat/completions",
    }
    return json.dumps({**entry, **fields}) + "\n"


def test_requests_are_shown_a_line_each_and_what_failed_with_its_hint(reef, home) -> None:
    home.log.parent.mkdir(parents=True)
    home.log.write_text(
        _entry(status=200, ms=1234.5, request_id="req_1", receipt="rec_1", prompt_tokens=9, completion_tokens=3, first_token_ms=80.0)
        + _entry(status=404, level="warning", ms=2.0, request_id="req_2", error="not_found", param="model", hint="Served here: x.\x1b[2J")
        + json.dumps({"time": "2026-11-30T10:00:01Z", "level": "warning", "logger": "reef.x", "message": "odd"})
        + "\nwhat the process printed as it died\n"
    )
    good, bad, hint, odd, left = reef("logs").out.splitlines()
    assert good.split(maxsplit=1)[1] == "POST /v1/chat/completions 200 1.2 s · first token 80 ms · 9 + 3 tokens · rec_1 · req_1"
    assert "404" in bad and "not_found (model)" in bad and hint.strip() == "Served here: x. [2J"
    assert "WARNING reef.x: odd" in odd and left == "what the process printed as it died"
    assert "req_2" in reef("logs", "--level", "warning").out and "req_1" not in reef("logs", "--level", "warning").out
    for name in ("req_1", "rec_1"):
        assert len(reef("logs", "--request", name).out.splitlines()) == 1
    raw = reef("logs", "--request", "req_2", "--json").out
    assert json.loads(raw)["status"] == 404


def test_the_last_lines_come_from_the_file_before_where_a_new_one_has_just_begun(reef, home) -> None:
    home.log.parent.mkdir(parents=True)
    home.log.with_name(f"{home.log.name}.1").write_text("".join(_entry(status=200, request_id=f"old_{number}") for number in range(9)))
    home.log.write_text(_entry(status=200, request_id="new"))
    shown = reef("logs", "-n", "3").out.splitlines()
    assert [line.rsplit(" ", 1)[1] for line in shown] == ["old_7", "old_8", "new"]
    assert "old_2" in reef("logs", "-r", "old_2").out
