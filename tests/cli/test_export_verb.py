"""`reef export`: a complete file or none, and a last line that never gets into it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.cli.conftest import StandIn

LINES = '{"messages": [1]}\n{"messages": [2]}\n'
ROUTE = "GET /reef/scenarios/default/export"


def summary(left_out: dict[str, int]) -> str:
    return json.dumps({"reef": {"lines": 2, "sessions": 1, "left_out": left_out}}, separators=(",", ":")) + "\n"


def asked(daemon: StandIn) -> dict[str, list[str]]:
    return parse_qs(urlsplit(daemon.asked[-1][1]).query)


def test_lines_go_to_a_file_that_is_complete(reef, daemon: StandIn, tmp_path: Path) -> None:
    daemon.answer(ROUTE, LINES + summary({"$.messages[] does not fit the format (oneOf)": 3}))
    out = tmp_path / "good.jsonl"
    result = reef("export", "--good-only", "-f", "dpo", "--session", "ses_1", "-o", str(out))
    assert result.code == 0 and out.read_text() == LINES and result.out == ""
    assert "2 lines of 1 session." in result.err and "left out: 3: $.messages[]" in result.err
    assert asked(daemon) == {"format": ["dpo"], "good_only": ["true"], "session": ["ses_1"], "summary": ["true"]}
    told = json.loads(reef("export", "--out", str(out), "--json").out)
    assert told["lines"] == 2 and told["file"] == str(out)
    assert list(tmp_path.glob(".*")) == []


def test_an_export_that_is_cut_short_leaves_the_old_file(reef, daemon: StandIn, tmp_path: Path) -> None:
    out = tmp_path / "old.jsonl"
    out.write_text("old\n")
    daemon.answer(ROUTE, LINES)
    result = reef("export", "-o", str(out))
    assert result.code == 1 and "cut short" in result.err and out.read_text() == "old\n" and list(tmp_path.glob(".*")) == []
    assert reef("export", "-o", str(tmp_path / "nowhere" / "x")).code == 1


def test_times_are_read_as_people_write_them(reef, daemon: StandIn, tmp_path: Path) -> None:
    daemon.answer(ROUTE, summary({}))
    out = str(tmp_path / "x")
    assert reef("export", "-o", out, "--since", "7d").code == 0
    assert abs(time.time() - 7 * 86400 - float(asked(daemon)["since"][0])) < 60
    assert reef("export", "-o", out, "--since", "1970-01-03").code == 0
    assert 0 <= float(asked(daemon)["since"][0]) <= 3 * 86400
    for wrong in ("yesterday", "7y", "-1d"):
        assert reef("export", "-o", out, f"--since={wrong}").code == 1
    assert reef("export", "--json").code == 1
