"""`kill -9` at every named point of publishing: the old or the new release serves, never a mix, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from daemon.failpoints import FAILPOINTS
from tests.e2e.faults.scene import add_lora_release, check_promises, quick_recipes
from tests.e2e.reef_home import ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_rollback_killed_at_each_point(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        reef.start()
        first = reef.head()
        receipts = [reef.ask("What is a release?").receipt]
        reef.stop()
        with_lora = add_lora_release(reef)
        texts: dict[bool, str] = {}
        on_lora, head = True, with_lora
        for point in FAILPOINTS:
            reef.start(env={"REEF_FAILPOINT": point})
            assert reef.head() == head
            answer = reef.ask("Tell me about rivers.", max_tokens=24)
            receipts.append(answer.receipt)
            assert texts.setdefault(on_lora, answer.text) == answer.text, "the same content must give the same reply"
            target = first if on_lora else with_lora
            with pytest.raises(httpx.HTTPError):
                reef.request("POST", "/reef/scenarios/default/rollback", {"release_id": target, "expected_head": head})
            assert reef.wait_dead() == -9
            reef.start()
            listed = [str(release["release_id"]) for release in reef.releases()]
            head = check_promises(reef, receipts, {head, listed[0]})
            moved = point in ("publish.head-moved", "publish.logged")
            assert (head == listed[0] and listed[0] not in (first, with_lora)) if moved else True
            on_lora = bool(_lora_of(reef, head))
            again = reef.ask("Tell me about rivers.", max_tokens=24)
            assert texts.setdefault(on_lora, again.text) == again.text, "what serves is not what the head says"
            reef.stop()
        assert set(texts) == {True, False} and texts[True] != texts[False], "the test's LoRA must make a difference"


def test_a_promotion_killed_at_each_point(tmp_path: Path) -> None:
    serve = quick_recipes(tmp_path / "mine", "Quick")
    with ReefHome(tmp_path / "home") as reef:
        receipts: list[str] = []
        reef.start("-c", str(serve))  # the first release is published by the first start
        head = reef.head()
        reef.stop()
        for point in FAILPOINTS:
            reef.start("-c", str(serve), env={"REEF_FAILPOINT": point})
            receipts.append(reef.ask(f"Something new before {point}.").receipt)
            reef.start_run()
            assert reef.wait_dead() == -9
            reef.start("-c", str(serve))
            newest = str(reef.releases()[0]["release_id"])
            runs = reef.get("/reef/scenarios/default/runs")["runs"]
            assert all(run["ended_at"] for run in runs), "a run that died with the daemon must not look alive"
            told = {run["release_id"] for run in runs}
            assert newest == head or newest in told, "a run whose release stands must say so"
            head = check_promises(reef, receipts, {head, newest})
            reef.stop()
        reef.start("-c", str(serve))
        run = reef.run()
        assert run["verdict"] == "promoted", f"after all these crashes a run must still get through: {run}"
        check_promises(reef, receipts, {str(run["release_id"])})


def _lora_of(reef: ReefHome, release: str) -> object:
    shown = reef.get(f"/reef/scenarios/default/releases/{release}")
    listed = shown.get("release", shown)
    return next((artifact for artifact in listed["artifacts"] if artifact["kind"] == "lora"), None)
