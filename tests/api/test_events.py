"""The live feed of the app: who looks on is told what changed, soon, and only that."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from daemon.observing.rates import Rates
from daemon.records import JSONObject
from tests.daemon.running import Running, running


@contextlib.asynccontextmanager
async def listening(daemon: Running) -> AsyncIterator[asyncio.Queue[tuple[str, str]]]:
    """The feed, past its greeting."""
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    greeted = asyncio.Event()

    async def listen() -> None:
        async with daemon.client.stream("GET", "/reef/events") as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    event = json.loads(line[6:])
                    if event["type"] == "hello":
                        greeted.set()
                    else:
                        heard.put_nowait((event["type"], event["scenario"]))

    task = asyncio.create_task(listen())
    try:
        await asyncio.wait_for(greeted.wait(), 5)
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def heard_until(heard: asyncio.Queue[tuple[str, str]], wanted: tuple[str, str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while wanted not in found:
        found.append(await asyncio.wait_for(heard.get(), 5))
    return found


async def test_a_reply_feedback_and_a_release_are_told_to_whoever_looks_on(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        first = await daemon.chat("hello")
        async with listening(daemon) as heard:
            await daemon.chat("and again")
            told = await heard_until(heard, ("records", "default"))
            assert ("head", "default") not in told, "nothing was published"
            await daemon.client.post("/reef/report", json={"references": [first.headers["x-reef-agent-record-id"]], "score": 1})
            await heard_until(heard, ("records", "default"))
            draft = await asyncio.wrap_future(daemon.services.log.append("default", "settings", "r1", "r1", "owner"))
            assert draft
            await heard_until(heard, ("head", "default"))
            await asyncio.wrap_future(daemon.services.runs.create("default", "sft"))
            await heard_until(heard, ("runs", ""))


async def test_it_is_silent_while_nothing_changes_and_ends_with_the_daemon(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await daemon.chat("hello")
        async with listening(daemon) as heard:
            await asyncio.sleep(0.25)
            while not heard.empty():
                heard.get_nowait()
            await asyncio.sleep(0.35)
            assert heard.empty(), "nothing changed"
        assert (await daemon.bare.get("/reef/events")).status_code == 401


async def test_many_replies_are_told_at_most_ten_times_a_second(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await daemon.chat("hello")
        async with listening(daemon) as heard:
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*(daemon.chat(f"question {number}") for number in range(20)))
            await heard_until(heard, ("records", "default"))
            await asyncio.sleep(0.15)
            passed = asyncio.get_running_loop().time() - began
            more = [heard.get_nowait() for _ in range(heard.qsize())]
            assert 1 + sum(kind == "records" for kind, _ in more) <= passed / 0.1 + 1


async def test_the_engine_says_who_is_answered_how_fast_and_in_how_much_memory(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await daemon.chat("hello")
        answer: JSONObject = (await daemon.client.get("/reef/engine")).json()
        assert answer["in_flight"] == 0 and answer["streams"] == []
        processes = answer["processes"]
        assert isinstance(processes, list) and isinstance(processes[0], dict)
        assert processes[0]["what"] == "daemon" and int(str(processes[0]["rss_bytes"])) > 1 << 20
        lease = await daemon.services.serving.admit("default", "session-1")
        try:
            answer = (await daemon.client.get("/reef/engine")).json()
            assert answer["streams"] == [{"scenario": "default", "session": "session-1", "release_id": "r1", "requests": 1}]
        finally:
            lease.release()


def test_rates_are_of_a_second_each_and_begin_again_after_a_gap_or_a_new_engine() -> None:
    rates = Rates()
    for at, generated in ((100.0, 0), (100.4, 30), (101.0, 60), (102.0, 100), (103.0, 5)):
        rates.sample(at, generated, 0)
    assert list(rates.generated) == [60.0, 40.0, 0.0], "a counter that fell is a new engine's, not a negative speed"
    rates.sample(120.0, 900, 0)
    assert list(rates.generated) == [], "nobody looked on: what came meanwhile belongs to no second"
