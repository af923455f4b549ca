"""Very many sessions at once: each keeps its own turns, and nothing is lost or mixed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.daemon.running import Running, running
from tests.engine.fake import ScriptedEngine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

AT_ONCE = 64
TURNS = 2


async def turn(daemon: Running, session: int, number: int) -> str:
    """One turn of a conversation without any session's name in every second one; the receipt."""
    messages: list[dict[str, str]] = [{"role": "user", "content": f"I am number {session}."}]
    for _ in range(number):
        messages += [
            {"role": "assistant", "content": f"echo: {messages[-1]['content']}"},
            {"role": "user", "content": f"And {session} again."},
        ]
    headers = {"x-reef-tag-session": f"agent-{session}"} if session % 2 else {}
    answer = await daemon.client.post("/v1/chat/completions", json={"model": "scripted", "messages": messages}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-reef-agent-record-id"]


@pytest.mark.parametrize("sessions", [400, pytest.param(10_000, marks=pytest.mark.long)])
async def test_sessions_that_go_on_at_once_each_keep_their_turns(tmp_path: Path, sessions: int) -> None:
    async with running(tmp_path, ScriptedEngine(streams=AT_ONCE)) as daemon:
        receipts: dict[tuple[int, int], str] = {}
        waiting = [(session, number) for number in range(TURNS) for session in range(sessions)]
        chance = random.Random(3)
        first, second = waiting[:sessions], waiting[sessions:]
        chance.shuffle(first)
        chance.shuffle(second)

        async def client(turns: list[tuple[int, int]]) -> None:
            while turns:
                session, number = turns.pop()
                receipts[session, number] = await turn(daemon, session, number)

        for turns in (first, second):
            await asyncio.gather(*(client(turns) for _ in range(AT_ONCE)))
        reader = daemon.services.reader
        assert len(set(receipts.values())) == TURNS * sessions == reader.counts("default").inferences
        assert reader.counts("default").sessions == sessions
        for session in chance.sample(range(sessions), 200):
            records = [reader.inference(receipts[session, number]) for number in range(TURNS)]
            assert len({record.session for record in records}) == 1, "the turns of one conversation are one session"
            assert f"I am number {session}." in str(records[-1].messages[0])
        print(f"{TURNS * sessions} requests in {sessions} sessions, 0 lost, 0 mixed")
