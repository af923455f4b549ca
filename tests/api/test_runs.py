"""Runs over HTTP: started by the owner, followed live, resumed, cancelled. The run process is the real one."""

from __future__ import annotations

import json
from pathlib import Path

from daemon.experience.runs import RunStatus
from daemon.records import JSONObject
from tests.daemon.running import Running, running

BASE = "/reef/scenarios/default/runs"


async def follow(daemon: Running, run_id: str, after: int = 0) -> list[tuple[int, JSONObject]]:
    """All events with their cursors, to the end of the stream."""
    events: list[tuple[int, JSONObject]] = []
    cursor = 0
    async with daemon.client.stream("GET", f"{BASE}/{run_id}/events?after={after}", timeout=60) as response:
        async for line in response.aiter_lines():
            if line.startswith("id: "):
                cursor = int(line[4:])
            elif line.startswith("data: "):
                events.append((cursor, json.loads(line[6:])))
    return events


async def test_a_run_is_followed_to_its_end_and_its_events_can_be_read_again_from_any_cursor(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await daemon.chat("hello")
        started = await daemon.owner.post(BASE, json={"recipe": "demos", "dry_run": True})
        assert started.status_code == 201, started.text
        run_id = started.json()["run_id"]
        second = await daemon.owner.post(BASE, json={"recipe": "demos"})
        assert second.status_code == 409 and "under way" in second.json()["error"]["message"]
        events = await follow(daemon, run_id)
        assert events[-1][1]["type"] == "ended" and events[-1][1]["verdict"] == "nothing"
        assert [cursor for cursor, _ in events] == list(range(1, len(events) + 1))
        assert await follow(daemon, run_id, after=events[0][0]) == events[1:]
        for cursor in (b"\xb2", b"-1", b"x", b"9" * 5000):
            refused = await daemon.client.get(f"{BASE}/{run_id}/events", headers=[(b"last-event-id", cursor)])
            assert refused.status_code == 400, cursor
        run = (await daemon.client.get(f"{BASE}/{run_id}")).json()
        assert run["status"] == "done" and run["ended_at"] and run["trigger"] == "owner"
        assert [one["run_id"] for one in (await daemon.client.get(BASE)).json()["runs"]] == [run_id]
        assert (await daemon.owner.delete(f"{BASE}/{run_id}")).status_code == 409
        assert (await daemon.client.get(f"{BASE}/run_none")).status_code == 404


async def test_an_unknown_recipe_fails_the_run_with_the_nearest_name_and_status_shows_it(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        started = await daemon.owner.post(BASE, json={"recipe": "demso"})
        if started.status_code == 201:
            await follow(daemon, started.json()["run_id"])
            error = (await daemon.client.get(f"{BASE}/{started.json()['run_id']}")).json()["error"]
            [scenario] = (await daemon.client.get("/reef/status")).json()["scenarios"]
            assert scenario["last_failure"]["run_id"] == started.json()["run_id"]
        else:
            error = started.text
        assert "demos" in error
        assert (await daemon.chat("still here")).status_code == 200


async def test_half_a_character_in_what_a_run_is_started_with_is_a_400(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for body in (r'{"recipe":"\ud800"}', r'{"settings":{"\ud800":1}}', r'{"settings":{"batch_size":["\ud800"]}}'):
            response = await daemon.owner.post(BASE, content=body, headers={"content-type": "application/json"})
            assert response.status_code == 400 and "half a character" in response.json()["error"]["message"], body
        assert (await daemon.client.get(BASE)).json()["runs"] == []


async def test_past_runs_are_paged_and_the_installed_recipes_are_named(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        runs = daemon.services.runs
        made = []
        for _ in range(5):
            run = runs.create("default", "demos").result()
            runs.finish(run.id, RunStatus.DONE, verdict="nothing").result()
            made.append(run.id)
        seen: list[str] = []
        before = ""
        for _ in range(3):
            page = (await daemon.client.get(f"{BASE}?limit=2{before}")).json()
            seen += [run["run_id"] for run in page["runs"]]
            before = f"&before={page['next']}"
        assert seen == made[::-1] and page["next"] is None
        assert (await daemon.client.get(f"{BASE}?before=soon")).status_code == 400
        recipes = (await daemon.client.get("/reef/recipes")).json()["recipes"]
        assert {"demos", "sft"} <= {recipe["name"] for recipe in recipes}
