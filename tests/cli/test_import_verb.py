"""`reef import`: what goes to the daemon in which order, what is counted, and what a person reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reef_cli import sending
from tests.cli.conftest import StandIn

LINE = json.dumps({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})
PAIR = json.dumps({"prompt": "q", "chosen": "good", "rejected": "bad"})
RECORD = json.dumps({"agent_record_id": "r-1", "request_type": "report", "payload": {"references": ["x"], "score": 1}})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join([LINE, "broken \x1b[2J", RECORD, PAIR]) + "\n")
    return path


def test_everything_is_sent_in_order_and_counted(reef, daemon: StandIn, source: Path) -> None:
    daemon.answer("POST /reef/import", {"new": 1, "present": 1, "refused": [{"agent_record_id": "rec_x", "message": "It is taken."}]})
    daemon.answer("POST /reef/records/batch", {"records": [], "new": 1})
    result = reef("import", str(source), "-s", "old", "--good")
    assert result.code == 0
    assert "Imported into 'old': 3 new, 2 there already, 3 left out." in result.out
    assert "mixed.jsonl:2: it is not valid JSON" in result.err and "\x1b" not in result.err and "It is taken." in result.err
    assert [(path, headers["x-reef-scenario"]) for _, path, _, headers in daemon.asked] == [
        ("/reef/import", "old"),
        ("/reef/records/batch", "old"),
        ("/reef/import", "old"),
    ]
    first, second = daemon.asked[0][2]["sessions"], daemon.asked[2][2]["sessions"]
    assert first[0]["turns"][0]["score"] == 1 and first[0]["turns"][0]["id"].startswith("rec_i")
    assert second[0]["turns"][0]["score"] == -1 and second[0]["turns"][0]["feedback"] == {"correction": "good"}
    shown = json.loads(reef("import", str(source), "--json").out)
    assert shown["new"] == 3 and len(shown["left_out"]) == shown["skipped"] == 3


def test_a_long_file_goes_in_pages(reef, daemon: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_PAGE_ITEMS", 3)
    path = tmp_path / "long.jsonl"
    path.write_text("".join(LINE.replace('"q"', f'"q{number}"') + "\n" for number in range(7)))
    daemon.answer("POST /reef/import", {"new": 3, "present": 0, "refused": []})
    assert reef("import", str(path)).code == 0
    assert [len(body["sessions"]) for _, _, body, _ in daemon.asked] == [3, 3, 1]


def test_a_dry_run_needs_no_daemon_and_stores_nothing(reef, home, source: Path) -> None:
    result = reef("import", str(source), "--dry-run")
    assert result.code == 0 and "3 records could be imported into 'default', 1 left out." in result.out


def test_mistakes_say_what_to_type(reef, home, tmp_path: Path) -> None:
    for arguments in ((), ("x.jsonl", "--git", "."), ("absent.jsonl", "--dry-run"), ("--git", str(tmp_path), "--dry-run")):
        result = reef("import", *arguments)
        assert result.code == 1 and result.err.startswith("Error: "), arguments
    (tmp_path / "none.jsonl").write_text("nothing\n")
    assert reef("import", str(tmp_path), "--dry-run").code == 1


def test_what_the_daemon_refuses_is_left_out_alone(reef, daemon: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sending._MOST_BYTES, "records/batch", 200)
    path = tmp_path / "odd.jsonl"
    large = RECORD.replace('"x"', f'"{"y" * 300}"')
    path.write_text(f"{RECORD}\n{RECORD.replace('r-1', 'r-2')}\n{large}\n")
    daemon.answer("POST /reef/records/batch", {"error": {"code": "conflict", "message": "The id is taken.", "hint": ""}}, 409)
    result = reef("import", str(path))
    assert result.code == 1 and "0 new, 0 there already, 3 left out." in result.out
    assert "odd.jsonl:1: The id is taken." in result.err and "odd.jsonl:3: larger than" in result.err
    assert [len(body["records"]) for _, _, body, _ in daemon.asked] == [2, 1, 1]
