"""The messages wire before the real engine: what Claude Code and pi send, tools, stops, counts, and prompts that do not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.reef_home import MANUAL, ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
NAMES = ("claude-tui-full-02", "claude-tui-full-03", "claude-tui-full-04", "pi-anthropic-01", "pi-anthropic-02")
WEATHER = {
    "name": "get_weather",
    "description": "Get the weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
}
ASKED = {"role": "user", "content": "What is the weather in Lisbon?"}


@pytest.fixture(scope="module")
def reef(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReefHome]:
    with ReefHome(tmp_path_factory.mktemp("messages") / "home", MANUAL) as running:
        running.start()
        yield running


def post(reef: ReefHome, path: str = "/v1/messages", **fields: Any) -> httpx.Response:
    return reef.request("POST", path, {"model": reef.model, "max_tokens": 24, **fields}, who="client")


def message_of(answer: httpx.Response) -> dict[str, Any]:
    """The message, put together from its events where it was streamed."""
    assert answer.status_code == 200, answer.text
    if "event-stream" not in answer.headers["content-type"]:
        whole: dict[str, Any] = answer.json()
        return whole
    found: dict[str, Any] = {}
    texts: dict[int, str] = {}
    for line in answer.text.splitlines():
        if not line.startswith("data: "):
            continue
        event = json.loads(line[6:])
        if event["type"] == "message_start":
            found = event["message"]
        elif event["type"] == "content_block_start":
            found["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            texts[event["index"]] = texts.get(event["index"], "") + (delta.get("text") or delta.get("partial_json") or "")
        elif event["type"] == "message_delta":
            found |= event["delta"] | {"usage": event["usage"]}
        elif event["type"] == "message_stop":
            found["reef"] = event["reef"]
    for index, text in texts.items():
        block = found["content"][index]
        block["text" if block["type"] == "text" else "input"] = text if block["type"] == "text" else json.loads(text)
    return found


def test_what_agents_send_is_answered_and_read_on_from_where_it_was(reef: ReefHome) -> None:
    cached = {}
    for name in NAMES:
        captured = json.loads((CAPTURES / f"{name}.json").read_text())
        found = message_of(post(reef, **{**captured["body"], "model": reef.model, "max_tokens": 24}))
        assert found["stop_reason"] in ("end_turn", "max_tokens", "tool_use") and found["reef"]["agent_record_id"], name
        cached[name] = found["usage"]["cache_read_input_tokens"] / (
            found["usage"]["input_tokens"] + found["usage"]["cache_read_input_tokens"]
        )
    assert cached["claude-tui-full-04"] > 0.8 and cached["pi-anthropic-02"] > 0.8, cached


def test_a_forced_call_a_stop_and_a_form(reef: ReefHome) -> None:
    forced: dict[str, Any] = {
        "tools": [WEATHER],
        "tool_choice": {"type": "tool", "name": "get_weather"},
        "max_tokens": 100,
        "temperature": 0,
    }
    for stream in (False, True):
        found = message_of(post(reef, messages=[ASKED], stream=stream, **forced))
        block = found["content"][-1]
        assert (found["stop_reason"], block["name"], list(block["input"])) == ("tool_use", "get_weather", ["city"])
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": "sunny"}
    history = [ASKED, {"role": "assistant", "content": found["content"]}, {"role": "user", "content": [result]}]
    assert message_of(post(reef, messages=history, tools=[WEATHER]))["usage"]["cache_read_input_tokens"] > 0
    listing = [{"role": "user", "content": "Repeat exactly: alpha, beta, gamma, delta"}]
    stopped = message_of(post(reef, messages=listing, temperature=0, stop_sequences=["zzzz", ","]))
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", ","), stopped
    # Names from a list, for a small model may never end one of its own.
    city = {"type": "object", "properties": {"city": {"enum": ["Faro", "Porto"]}}, "required": ["city"], "additionalProperties": False}
    held = message_of(
        post(reef, messages=[ASKED], temperature=0, max_tokens=60, output_config={"format": {"type": "json_schema", "schema": city}})
    )
    assert held["stop_reason"] == "end_turn" and json.loads(held["content"][0]["text"]) in ({"city": "Faro"}, {"city": "Porto"})


def test_counts_are_what_the_engine_reads(reef: ReefHome) -> None:
    asked: dict[str, Any] = {"system": "Be brief.", "tools": [WEATHER], "messages": [ASKED]}
    counted = post(reef, "/v1/messages/count_tokens", **asked).json()["input_tokens"]
    usage = message_of(post(reef, **asked))["usage"]
    assert counted == usage["input_tokens"] + usage["cache_read_input_tokens"]


def test_a_prompt_that_does_not_fit_is_refused_in_the_words_that_claude_code_compacts_on(reef: ReefHome) -> None:
    answer = post(reef, messages=[{"role": "user", "content": "word " * 9000}], stream=True)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("prompt is too long: ")
    assert "maximum context length is 8192 tokens" in answer.text
