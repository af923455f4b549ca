"""What a client can ask of releases: a page of the list, one of them, two side by side, and where a line comes from."""

from __future__ import annotations

import asyncio
from pathlib import Path

from daemon.evolution.publish import engine_settings
from daemon.harness_tree import HarnessTree
from daemon.records import JSONObject
from daemon.serving.releases import base_facts
from daemon.versions.manifest import EvaluationSummary, Operation
from daemon.versions.release import Draft, Release
from tests.daemon.running import Running, running

BASE = "/reef/scenarios/default"


def attempt(score: float, tokens: int = 10, reply: str = "said") -> JSONObject:
    return {"score": score, "detail": "", "reply": reply, "prompt_tokens": tokens, "completion_tokens": 1, "seconds": 0.1}


def evaluation(*scores: tuple[str, float, float]) -> JSONObject:
    tasks: JSONObject = {
        "held-out": [
            {"task": task, "prompt": f"Do {task}.", "before": attempt(before), "after": attempt(after, 5)} for task, before, after in scores
        ]
    }
    return {"verdict": "promoted", "tasks": tasks}


def rules(daemon: Running, text: str, **more: object) -> Draft:
    model = daemon.services.engine.model
    fields: dict[str, object] = {
        "harness": HarnessTree({"AGENTS.md": text} if text else {}),
        "engine": engine_settings(model),
        "who": "test",
    }
    fields["operation"] = Operation.TRAINING
    return Draft(scenario="default", base=base_facts(model), **(fields | more))  # type: ignore[arg-type]


async def publish(daemon: Running, text: str, **more: object) -> Release:
    head = daemon.services.serving.head("default")
    return await daemon.services.publisher.publish(rules(daemon, text, **more), head.release_id if head else None)


async def test_the_list_is_read_page_by_page_and_says_how_each_stands(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        summary = EvaluationSummary(held_out_before=0.5, held_out_after=1.0, tasks=4, wins=2, losses=0, p=0.25)
        await publish(daemon, "- a\n", summary=summary)
        held = await daemon.services.publisher.hold(rules(daemon, "- a\n- b\n"))
        await daemon.services.publisher.reject(rules(daemon, "- c\n", verdict="rejected: worse on the held-in tasks: 1 loss"))
        promoted = (await daemon.owner.post(f"{BASE}/promote", json={"release_id": held.id})).json()["release_id"]
        aged = await daemon.services.publisher.hold(rules(daemon, "- d\n", compared_with="r2"))
        fresh = await daemon.services.publisher.hold(rules(daemon, "- e\n"))
        await daemon.owner.post(f"{BASE}/pins", json={"release_id": "r2"})
        whole = (await daemon.client.get(f"{BASE}/releases")).json()
        found = {item["release_id"]: item for item in whole["releases"]}
        assert list(found) == ["r7", "r6", "r5", "r4", "r3", "r2", "r1"] and whole["next"] is None
        assert [found[name]["aged"] for name in (aged.id, fresh.id, promoted)] == [True, False, False]
        assert (found[held.id]["state"], found[held.id]["promoted_as"]) == ("promoted", promoted)
        assert [name for name, item in found.items() if item["pinned"]] == ["r2"]
        assert [name for name, item in found.items() if item["current"]] == [promoted]
        assert found["r2"]["line"] == "+1 rule · held-out 2→4 of 4 (+2 −0, p .25)"
        assert [part["text"] for part in found["r2"]["parts"]] == ["+1 rule", "held-out 2→4 of 4", "(+2 −0, p .25)"]
        assert found["r4"]["line"] == "+1 rule −1 rule · worse on the held-in tasks: 1 loss"
        pages, before = list[str](), ""
        for _ in range(4):
            page = (await daemon.client.get(f"{BASE}/releases?limit=2&before={before}")).json()
            pages += [item["release_id"] for item in page["releases"]]
            before = page["next"]
        assert pages == list(found) and before is None
        assert (await daemon.client.get(f"{BASE}/releases?before=head")).status_code == 400


async def test_a_release_names_the_sessions_that_it_learned_from(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        headers = {"x-reef-tag-session": "first"}
        body = {"model": "scripted", "messages": [{"role": "user", "content": "How do I run the tests?"}]}
        turns = [(await daemon.client.post("/v1/chat/completions", json=body, headers=headers)).headers for _ in range(2)]
        receipts = tuple(turn["x-reef-agent-record-id"] for turn in turns)
        made = await publish(daemon, "- Run the tests with pytest.\n", records=(*receipts, "rec_gone"))
        back = (await daemon.owner.post(f"{BASE}/rollback", json={"release_id": "r1"})).json()["release_id"]
        await daemon.owner.post(f"{BASE}/rollback", json={"release_id": made.id})
        shown = (await daemon.client.get(f"{BASE}/releases/{made.id}")).json()
        [session] = shown["sessions"]
        assert (session["title"], session["receipts"], shown["records_gone"]) == ("How do I run the tests?", 2, 1)
        assert shown["later"] == ["r4"] and shown["sizes"]["files"] == 1 and shown["run"] is None
        assert [(await daemon.client.get(f"{BASE}/releases/{name}")).json()["release_id"] for name in ("head", "head~1", "r3~2")] == [
            "r4",
            back,
            "r1",
        ]
        assert (await daemon.client.get(f"{BASE}/releases/head~9")).status_code == 404
        answer = (await daemon.client.get(f"{BASE}/why", params={"text": "run the tests with pytest"})).json()
        assert [(one["release_id"], one["event"], one["number"]) for one in answer["releases"]] == [
            (made.id, "brought", 1),
            (back, "removed", 1),
            ("r4", "brought back", 1),
        ]
        assert answer["match"] == "exact" and answer["serving"] and answer["releases"][0]["sessions"] == [session]
        asked = [{"text": ""}, {"text": "x" * 5000}, {"text": "--"}, {}]
        statuses = await asyncio.gather(*(daemon.client.get(f"{BASE}/why", params=one) for one in asked))
        assert [one.status_code for one in statuses] == [400] * 4


async def test_two_releases_are_compared_word_by_word_and_task_by_task(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await publish(daemon, "- Be brief.\n", evaluation=evaluation(("a", 0, 1), ("b", 1, 1), ("c", 1, 0)))
        await publish(daemon, "- Be very brief.\n", evaluation=evaluation(("a", 1, 0.5), ("b", 1, 1), ("d", 0, 1)))
        together = (await daemon.client.get(f"{BASE}/releases/r2/diff/head")).json()
        lines = together["files"][0]["hunks"][0]["lines"]
        assert [line["kind"] for line in lines] == ["removed", "added"]
        assert lines[1]["segments"] == [["- Be ", False], ["very ", True], ["brief.", False]]
        assert together["tasks_compared"] == "together" and together["line"] == "1 rule edited"
        assert [(one["task"], one["outcome"]) for one in together["tasks"]["held-out"]] == [("a", "loss"), ("b", "tie"), ("d", "win")]
        assert together["tally"]["held-out"] == {"wins": 1, "losses": 1, "ties": 1}
        first = together["tasks"]["held-out"][0]
        assert (first["prompt"], first["before"], first["after"], first["tokens_after"]) == (
            "Do a.",
            1,
            0.5,
            6,
        ) and "reply_before" not in first
        turned = (await daemon.client.get(f"{BASE}/releases/r3/diff/r2?replies=1")).json()
        assert [one["outcome"] for one in turned["tasks"]["held-out"]] == ["win", "tie", "loss"]
        assert turned["tasks"]["held-out"][0]["reply_before"] == "said"
        apart = (await daemon.client.get(f"{BASE}/releases/r1/diff/r3")).json()
        assert apart["tasks_compared"] == "apart"
        assert [(one["task"], one["before"], one["after"]) for one in apart["tasks"]["held-out"]] == [("a", 0, 0.5), ("b", 1, 1)]
        await daemon.owner.post(f"{BASE}/rollback", json={"release_id": "r2"})
        restored = (await daemon.client.get(f"{BASE}/releases/r1/diff/head")).json()
        assert restored["tasks_compared"] == "together" and restored["tally"]["held-out"] == {"wins": 1, "losses": 1, "ties": 1}
        same = (await daemon.client.get(f"{BASE}/releases/r2/diff/head")).json()
        assert same["same_content"] and same["line"] == "no change" and same["tasks_compared"] is None
        assert (await daemon.client.get(f"{BASE}/releases/r1/diff/r2?replies=perhaps")).status_code == 400
