"""Sessions in the app, in a real terminal against a real daemon: found, read, judged, exported and forgotten by keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.reef_home import MANUAL, ReefHome
from tests.e2e.terminal import Terminal
from tests.e2e.test_app import APP

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def test_a_session_is_found_read_judged_exported_and_forgotten(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home", MANUAL) as reef:
        reef.start()
        kept = reef.ask("Name a colour.", max_tokens=4).receipt
        doomed = reef.ask("Which branch is gone?", max_tokens=4).receipt
        with Terminal(tmp_path, APP, reef.environment(), (120, 32)) as terminal:
            terminal.until("● r1")
            terminal.press("2")
            terminal.until("Name a colour.", "Which branch is gone?")
            terminal.press("/")
            terminal.until("esc All")
            terminal.type("colour")
            terminal.until("Name a colour.", without="Which branch")
            terminal.press("Enter")
            terminal.until("g Good")  # the list has the keys again
            terminal.press("Enter")
            terminal.until("user  Name a colour.", "under way on r1", "esc Back")

            terminal.press("b")
            terminal.until("Bad?", "why, if you like")
            terminal.type("too wordy")
            terminal.press("Enter")
            terminal.until("✗ bad · note: too wordy", "scored")
            assert [report["score"] for report in reports(reef)] == [-1.0]

            first = reef.get(f"/reef/scenarios/default/records/{kept}")["payload"]
            history = [*first["messages"], {"role": "assistant", "content": first["reply"]["content"]}]
            reef.ask("", max_tokens=4, messages=[*history, {"role": "user", "content": "Name another one."}])
            terminal.until("user  Name another one.", "2 turns")  # it comes by itself

            terminal.press("x")
            terminal.until("fine-tuning lines")
            terminal.press("Enter")
            terminal.until("Export to")
            terminal.press("C-u")
            terminal.until("Export to", without=".openai.jsonl")
            terminal.type(str(tmp_path / "out.jsonl"))
            terminal.press("Enter")
            terminal.until("1 line in")
            assert "Name a colour." in json.dumps(json.loads((tmp_path / "out.jsonl").read_text()))

            terminal.press("Escape")
            terminal.until("g Good", without="esc Back")
            terminal.press("/")
            terminal.until("esc All")
            terminal.press("Escape")
            terminal.until("Which branch is gone?", "g Good")
            terminal.press("Home")
            terminal.until("▌○ Name a colour.")
            terminal.press("Down")
            terminal.until("▌○ Which branch")
            terminal.press("f")
            terminal.until("1 record and 0 reports", "cannot be undone")
            terminal.press("y")
            terminal.until("Forgotten: 1 record", without="Which branch is gone?")
        assert reef.request("GET", f"/reef/scenarios/default/records/{doomed}").status_code == 404
        assert reef.request("GET", f"/reef/scenarios/default/records/{kept}").status_code == 200


def reports(reef: ReefHome) -> list[dict[str, object]]:
    turns = reef.get(f"/reef/scenarios/default/sessions/{reef.get('/reef/scenarios/default/sessions?q=colour')['sessions'][0]['id']}")[
        "turns"
    ]
    return [report for turn in turns for report in turn["reports"]]
