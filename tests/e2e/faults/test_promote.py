"""A held candidate is promoted after another release was published, with the real engine and command line, and taken back in a crash."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.e2e.faults.scene import add_lora_release, check_promises, hold_candidate, quick_recipes
from tests.e2e.reef_home import ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
S = "/reef/scenarios/default"


def test_a_late_promotion_and_a_crash_when_it_is_taken_back(tmp_path: Path) -> None:
    serve = quick_recipes(tmp_path / "mine", "Quick")
    with ReefHome(tmp_path / "home") as reef:

        def start(point: str = "") -> None:
            reef.start("-c", str(serve), env={"REEF_FAILPOINT": point})

        start()
        receipts = [reef.ask("What is a release?").receipt]
        reef.stop()
        assert (hold_candidate(reef, "Quick"), add_lora_release(reef)) == ("r2", "r3")

        start()
        typed = reef.cli("promote", "r2")
        assert typed.returncode == 0, typed.stderr
        assert "r2 was evaluated against r1; r3 serves now. Its changes fit r3 and are evaluated there." in typed.stdout
        assert "promoted, to see publishing survive a crash (r2 on r3)" in typed.stdout
        head = reef.head()
        shown = reef.get(f"{S}/releases/{head}")
        before = reef.get(f"{S}/releases/r3")
        assert shown["operation"] == "promote" and shown["restores"] == "r2" and shown["lora"] == before["lora"] is not None
        assert "You are helper" in shown["files"]["serving.json"]
        check_promises(reef, receipts, {head})

        reef.stop()
        start("publish.followed")
        with pytest.raises(httpx.HTTPError):
            reef.request("POST", f"{S}/undo", {"expected_head": head})
        assert reef.wait_dead() == -9
        start()
        undone = check_promises(reef, receipts, {str(reef.releases()[0]["release_id"])})
        assert undone != head and reef.get(f"{S}/releases/{undone}")["content_id"] == before["content_id"]
