"""What real agents send gets a sane answer: on the chat wire, which also lands in the right session, and what they ask at start.

The messages wire has a file of its own (`test_messages_captures`), and so has the responses wire (`test_responses`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import httpx

from daemon.records import TurnKind
from tests.daemon.running import Running, running
from tests.engine.fake import ScriptedEngine

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
_SENT_TO = {path.stem: str(json.loads(path.read_text())["path"]) for path in sorted(CAPTURES.glob("*.json"))}
CHAT = [name for name, path in _SENT_TO.items() if path == "/v1/chat/completions"]
AT_START = [name for name, path in _SENT_TO.items() if path not in ("/v1/chat/completions", "/v1/messages", "/v1/responses")]
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


async def test_what_agents_ask_at_start_is_answered_as_they_ask_it(tmp_path: Path) -> None:
    """With their own method and headers. Whoever lists the models finds the served one; a probe for life has no body."""
    assert AT_START == ["claude-tui-full-01", "codex-oss-lmstudio-01", "codex-oss-lmstudio-02"]
    async with running(tmp_path, ScriptedEngine()) as daemon:
        for name in AT_START:
            captured = json.loads((CAPTURES / f"{name}.json").read_text())
            headers = {key.lower(): value for key, value in captured["headers"] if key.lower() not in _NOT_SENT}
            answer = await daemon.client.request(captured["method"], captured["path"], headers=headers)
            assert answer.status_code == 200, (name, answer.text)
            assert answer.text == "" if captured["method"] == "HEAD" else answer.json()["data"][0]["id"] == "scripted"
