"""As `tests/gateway/test_openapi.py`, with many more requests and the owner's token, which reaches everything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.daemon.running import running
from tests.gateway.api_fuzzing import PLACES, attack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def starts_a_process(method: str, path: str) -> bool:
    """Runs have their own tests."""
    return method == "POST" and path.endswith("/runs")


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
async def test_no_request_made_from_the_description_fails_the_daemon(tmp_path: Path, number: int) -> None:
    async with running(tmp_path) as daemon:
        turn = (await daemon.chat("hello")).headers["x-reef-agent-record-id"]
        places = {**PLACES, "record": turn, "session": daemon.services.reader.inference(turn).session}
        token = daemon.owner.headers["authorization"].removeprefix("Bearer ")
        examples = 5 if number == 1 else 100
        sent, seen = await asyncio.to_thread(attack, daemon.url, token, places, examples=examples, number=number, skip=starts_a_process)
        print(f"{sent} requests, statuses {sorted(seen)}")
        assert sent > 400 and {200, 400, 404} <= seen
        assert (await daemon.chat("still there")).status_code == 200
