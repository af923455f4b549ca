"""What real agents send on the chat wire gets a sane answer, and lands in the right session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import httpx

from daemon.records import TurnKind
from tests.daemon.running import Running, running
from tests.engine.fake import ScriptedEngine

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
CHAT = sorted(path.stem for path in CAPTURES.glob("*.json") if json.loads(path.read_text())["path"] == "/v1/chat/completions")
_NOT_SENT = {"host", "content-length", "connection", "authorization", "accept-encoding", "content-encoding"}


async def replay(daemon: Running, name: str) -> httpx.Response:
    """Send the captured request; the model's name is the served one."""
    captured = json.loads((CAPTURES / f"{name}.json").read_text())
    headers: Mapping[str, str] = {key.lower(): value for key, value in captured["headers"] if key.lower() not in _NOT_SENT}
    body = {**captured["body"], "model": "scripted"}
    return await daemon.client.post("/v1/chat/completions", json=body, headers=headers)


def receipt_of(response: httpx.Response) -> str:
    if "text/event-stream" not in response.headers["content-type"]:
        return response.headers["x-reef-agent-record-id"]
    frames = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    return str(frames[-1]["reef"]["agent_record_id"])


async def test_each_captured_request_is_answered_and_recorded(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedEngine()) as daemon:
        for name in CHAT:
            response = await replay(daemon, name)
            assert response.status_code == 200, (name, response.text)
            assert str(daemon.services.reader.inference(receipt_of(response)).reply["content"]).startswith("echo: "), name


async def test_the_turns_of_an_agent_are_one_session_and_its_title_request_is_no_turn(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedEngine()) as daemon:
        records = [daemon.services.reader.inference(receipt_of(await replay(daemon, f"opencode-0{n}"))) for n in (1, 2, 3)]
        assert len({record.session for record in records}) == 1
        assert [record.kind for record in records] == [TurnKind.ASIDE, TurnKind.TURN, TurnKind.TURN]
