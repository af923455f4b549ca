"""What Claude Code and pi send on the messages wire gets a sane answer, and lands in the right session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from daemon.records import Inference, TurnKind
from tests.daemon.running import Running, running
from tests.engine.examples import part
from tests.engine.fake import ScriptedEngine
from tests.gateway.test_messages import parsed

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
NAMES = sorted(path.stem for path in CAPTURES.glob("*.json") if json.loads(path.read_text())["path"] == "/v1/messages")
_NOT_SENT = {"host", "content-length", "connection", "authorization", "x-api-key", "accept-encoding"}


def captured(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CAPTURES / f"{name}.json").read_text())
    return found


async def replay(daemon: Running, name: str) -> Inference:
    """Send the captured request, and read its answer to the end."""
    asked = captured(name)
    headers = {key.lower(): value.encode("utf-8") for key, value in asked["headers"] if key.lower() not in _NOT_SENT}
    answer = await daemon.client.post(f"/v1/messages?{asked['query']}", json={**asked["body"], "model": "scripted"}, headers=headers)
    assert answer.status_code == 200, (name, answer.text)
    name_of_last, last = parsed(answer.text)[-1]
    assert name_of_last == "message_stop", name
    return daemon.services.reader.inference(str(last["reef"]["agent_record_id"]))


async def test_each_captured_request_is_answered_and_recorded(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedEngine()) as daemon:
        assert len(NAMES) == 7
        for name in NAMES:
            record = await replay(daemon, name)
            sent = json.dumps(captured(name)["body"])
            assert record.reply["content"], name
            assert "x-anthropic-billing-header" not in json.dumps(record.messages), name
            assert len(record.messages) >= sent.count('"role"'), (name, "a message is missing")


async def test_the_turns_of_an_agent_are_one_session_and_its_title_request_is_no_turn(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedEngine()) as daemon:
        records = [await replay(daemon, f"claude-tui-full-0{number}") for number in (2, 3, 4)]
        assert {record.session for record in records} == {"49ec48fd-d0f4-4a68-bd79-f0362cfd4c52"}
        assert [record.kind for record in records] == [TurnKind.ASIDE, TurnKind.TURN, TurnKind.TURN]


async def test_a_later_turn_begins_with_the_very_messages_of_the_one_before(tmp_path: Path) -> None:
    """Cache marks move, texts become blocks and back: the prompt's beginning must stay, or all of it would be read again."""
    async with running(tmp_path, ScriptedEngine()) as daemon:
        for first, second in (
            ("claude-01", "claude-02"),
            ("claude-tui-full-03", "claude-tui-full-04"),
            ("pi-anthropic-01", "pi-anthropic-02"),
        ):
            earlier, later = (await replay(daemon, first)).messages, (await replay(daemon, second)).messages
            assert later[: len(earlier)] == earlier and len(later) == len(earlier) + 2
            assert later[-1]["role"] == "tool" and later[-1]["tool_call_id"]


async def test_tools_whose_loading_is_deferred_are_shown_once_a_result_refers_to_them(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    async with running(tmp_path, engine) as daemon:
        await replay(daemon, "claude-01")
        names = [part(tool, "function")["name"] for tool in engine.requests[-1].tools]
        assert "ToolSearch" in names and "DeferredToolPlaceholder" not in names
        asked = captured("claude-02")["body"]
        reference = {"type": "tool_reference", "tool_name": "DeferredToolPlaceholder"}
        asked["messages"][-1]["content"][0]["content"] = [reference]
        await daemon.client.post("/v1/messages", json={**asked, "model": "scripted"})
        later = [part(tool, "function")["name"] for tool in engine.requests[-1].tools]
        assert later == [*names, "DeferredToolPlaceholder"]
        assert engine.requests[-1].messages[-1]["content"] == "The tool DeferredToolPlaceholder can be called now."
