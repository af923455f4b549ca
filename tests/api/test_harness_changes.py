"""What an installed agent is told at its start: what changed since the release that it has, and whether its settings still fit."""

from __future__ import annotations

from pathlib import Path

from daemon.records import JSONObject
from daemon.versions.manifest import EvaluationSummary
from tests.api.test_release_reading import publish, rules
from tests.daemon.running import Running, running


async def changes(daemon: Running, since: str) -> JSONObject:
    answer = await daemon.client.get("/reef/harness/changes", params={"since": since})
    assert answer.status_code == 200, answer.text
    found: JSONObject = answer.json()
    return found


async def test_a_step_of_one_release_tells_what_it_was_worth_and_one_of_several_only_what_changed(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await publish(daemon, "- a\n")
        summary = EvaluationSummary(held_out_before=0.25, held_out_after=0.5, tasks=8, wins=3, losses=1, p=0.25)
        await publish(daemon, "- a\n- b\n", summary=summary)
        told = await changes(daemon, "r2")
        assert told["line"] == "+1 rule · held-out 2→4 of 8 (+3 −1, p .25)"
        assert (told["since"], told["head"], told["harness_changed"], told["held"]) == ("r2", "r3", True, [])
        assert (await changes(daemon, "r1"))["line"] == "+2 rules"
        model = daemon.services.engine.model
        assert (told["model"], told["context_tokens"]) == (model.id, model.context_tokens)


async def test_what_is_installed_already_is_no_change_and_what_waits_is_named(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        assert (await changes(daemon, ""))["harness_changed"] is False, "the base model has nothing to install"
        await publish(daemon, "- a\n")
        held = await daemon.services.publisher.hold(rules(daemon, "- a\n- b\n"))
        told = await changes(daemon, "r2")
        assert (told["line"], told["harness_changed"], told["held"]) == ("", False, [held.id])
        assert (await changes(daemon, ""))["harness_changed"] is True


async def test_an_unknown_release_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        answer = await daemon.client.get("/reef/harness/changes", params={"since": "r99"})
        assert answer.status_code == 404 and "r99" in answer.json()["error"]["message"]
