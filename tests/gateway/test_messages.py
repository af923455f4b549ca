"""The messages wire: what a client of Anthropic's API sees, streamed and not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from daemon.engine.base import Capability
from daemon.errors import Busy, ContextOverflow, EngineError
from daemon.records import JSON, JSONObject, Status
from tests.daemon.running import Running, running
from tests.engine.examples import part
from tests.engine.fake import ALL, Reply, ScriptedEngine

CALL: JSONObject = {"id": "call_weather1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
WEATHER: JSONObject = {
    "name": "weather",
    "description": "of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
HELLO: JSONObject = {"role": "user", "content": "hello"}


@pytest.fixture
async def engine() -> ScriptedEngine:
    return ScriptedEngine(
        {
            "weather": Reply(tool_calls=(CALL,)),
            "think": Reply("It is 4.", reasoning="two and two"),
            "both": Reply("I look.", reasoning="hm", tool_calls=(CALL, {**CALL, "id": "call_weather2"})),
            "nothing": Reply(""),
        }
    )


@pytest.fixture
async def daemon(tmp_path: Path, engine: ScriptedEngine) -> AsyncIterator[Running]:
    async with running(tmp_path, engine) as found:
        yield found


async def ask(daemon: Running, text: str = "hello", **more: Any) -> httpx.Response:
    body = {"model": "scripted", "max_tokens": 1000, "messages": [{"role": "user", "content": text}], **more}
    return await daemon.client.post("/v1/messages?beta=true", json=body)


async def events(daemon: Running, text: str = "hello", **more: Any) -> list[tuple[str, Any]]:
    answer = await ask(daemon, text, stream=True, **more)
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def parsed(text: str) -> list[tuple[str, Any]]:
    """Name and data of each event; comments are skipped."""
    found = []
    for frame in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


async def test_a_whole_reply_with_its_receipt(daemon: Running) -> None:
    answer = await ask(daemon)
    body = answer.json()
    assert (body["type"], body["role"], body["model"]) == ("message", "assistant", "scripted")
    assert body["content"] == [{"type": "text", "text": "echo: hello"}]
    assert (body["stop_reason"], body["stop_sequence"]) == ("end_turn", None)
    receipt = answer.headers["x-reef-agent-record-id"]
    assert body["reef"]["agent_record_id"] == receipt and body["id"] == f"msg_{receipt.removeprefix('rec_')}"
    record = daemon.services.reader.inference(receipt)
    assert (record.wire, record.messages, record.reply["content"]) == ("messages", (HELLO,), "echo: hello")
    assert record.usage.prompt_tokens == body["usage"]["input_tokens"] + body["usage"]["cache_read_input_tokens"]


async def test_a_stream_has_every_event_in_its_order_and_the_receipt_on_the_last(daemon: Running) -> None:
    found = await events(daemon, "hello you")
    names = [name for name, _ in found]
    assert names[:2] == ["message_start", "content_block_start"] and names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(names[2:-3]) == {"content_block_delta"}
    assert all(data["type"] == name for name, data in found)
    receipt = found[-1][1]["reef"]["agent_record_id"]
    assert daemon.services.reader.inference(str(receipt)).reply["content"] == "echo: hello you"
    assert found[0][1]["message"]["id"] == f"msg_{str(receipt).removeprefix('rec_')}"
    delta = found[-2][1]
    assert delta["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert delta["usage"]["output_tokens"] > 0


async def test_reasoning_then_text_then_calls_are_blocks_of_their_own(daemon: Running) -> None:
    found = await events(daemon, "both", thinking={"type": "enabled", "budget_tokens": 2000}, tools=[WEATHER])
    blocks = [data["content_block"] for name, data in found if name == "content_block_start"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use", "tool_use"]
    assert blocks[2] == {"type": "tool_use", "id": "call_weather1", "name": "weather", "input": {}}
    order = [(name, data["index"]) for name, data in found if name in ("content_block_start", "content_block_stop")]
    assert order == [(f"content_block_{edge}", index) for index in range(4) for edge in ("start", "stop")]
    kinds = [data["delta"]["type"] for name, data in found if name == "content_block_delta"]
    assert kinds[:2] == ["thinking_delta", "signature_delta"]
    assert found[-2][1]["delta"]["stop_reason"] == "tool_use"
    whole = (await ask(daemon, "both", thinking={"type": "adaptive"}, tools=[WEATHER])).json()
    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert whole["content"][0]["thinking"] == "hm" and whole["content"][0]["signature"]
    assert whole["content"][3]["input"] == {"city": "Paris"}


async def test_reasoning_is_shown_only_where_it_was_asked_for_and_recorded_always(daemon: Running, engine: ScriptedEngine) -> None:
    nothing: dict[str, Any] = {}
    for more in (nothing, {"thinking": {"type": "disabled"}}):
        answer = await ask(daemon, "think", **more)
        assert answer.json()["content"] == [{"type": "text", "text": "It is 4."}]
        assert engine.requests[-1].template_values == {"enable_thinking": False}
        record = daemon.services.reader.inference(answer.headers["x-reef-agent-record-id"])
        assert record.reply["reasoning_content"] == "two and two"
    found = await events(daemon, "think")
    assert [data["content_block"]["type"] for name, data in found if name == "content_block_start"] == ["text"]
    await ask(daemon, "think", thinking={"type": "adaptive"})
    assert engine.requests[-1].template_values == {}, "the model decides"
    await ask(daemon, "think", thinking={"type": "enabled", "budget_tokens": 1024})
    assert engine.requests[-1].template_values == {"enable_thinking": True}


async def test_omitted_thinking_comes_back_into_the_prompt_through_its_signature(daemon: Running, engine: ScriptedEngine) -> None:
    asked: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "omitted"}}
    whole = (await ask(daemon, "think", **asked)).json()
    assert whole["content"][0]["thinking"] == "" and "two and two" not in json.dumps(whole)
    found = await events(daemon, "think", **asked)
    deltas = [data["delta"] for name, data in found if name == "content_block_delta" and data["index"] == 0]
    assert [delta["type"] for delta in deltas] == ["signature_delta"]
    assert deltas[0]["signature"] == whole["content"][0]["signature"]
    history = [
        {"role": "user", "content": "think"},
        {"role": "assistant", "content": whole["content"]},
        {"role": "user", "content": "go on"},
    ]
    await ask(daemon, messages=history, **asked)
    assert engine.requests[-1].messages[1] == {"role": "assistant", "content": "It is 4.", "reasoning_content": "two and two"}


async def test_the_end_says_why(daemon: Running) -> None:
    stopped = (await ask(daemon, "one two three", stop_sequences=["three", "two"])).json()
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "two")
    assert stopped["content"] == [{"type": "text", "text": "echo: one "}]
    found = await events(daemon, "one two three", stop_sequences=["three"])
    assert found[-2][1]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "three"}
    assert (await ask(daemon, max_tokens=4)).json()["stop_reason"] == "max_tokens"
    assert (await ask(daemon, "weather", tools=[WEATHER])).json()["stop_reason"] == "tool_use"
    nothing = (await ask(daemon, "nothing")).json()
    assert (nothing["content"], nothing["stop_reason"]) == ([], "end_turn")
    assert [name for name, _ in await events(daemon, "nothing")] == ["message_start", "message_delta", "message_stop"]


async def test_a_tools_result_leads_to_the_session_and_in_chat_form_to_the_engine(daemon: Running, engine: ScriptedEngine) -> None:
    first = await ask(daemon, "weather?", tools=[WEATHER])
    call = first.json()["content"][0]
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": "rain"}], "is_error": True}
    messages = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": first.json()["content"]},
        {"role": "user", "content": [result, {"type": "text", "text": "and now?", "cache_control": {"type": "ephemeral"}}]},
    ]
    second = await ask(daemon, messages=messages, tools=[WEATHER])
    records = [daemon.services.reader.inference(answer.headers["x-reef-agent-record-id"]) for answer in (first, second)]
    assert records[0].session == records[1].session
    assert [message["role"] for message in engine.requests[-1].messages] == ["user", "assistant", "tool", "user"]
    assert records[1].messages[2] == {"role": "tool", "content": "rain", "tool_call_id": call["id"], "is_error": True}
    assert records[1].messages[3] == {"role": "user", "content": "and now?"}
    assert part(engine.requests[-1].tools[0], "function", "parameters") == WEATHER["input_schema"]


@pytest.mark.parametrize(
    ("choice", "told", "parallel"),
    [
        ({"type": "auto"}, "auto", True),
        ({"type": "none"}, "none", True),
        ({"type": "any", "disable_parallel_tool_use": True}, "required", False),
        ({"type": "tool", "name": "weather"}, {"type": "function", "function": {"name": "weather"}}, True),
    ],
)
async def test_tool_choices(daemon: Running, engine: ScriptedEngine, choice: JSONObject, told: JSON, parallel: bool) -> None:
    server_tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    assert (await ask(daemon, tools=[server_tool, WEATHER], tool_choice=choice)).status_code == 200
    asked = engine.requests[-1]
    assert (asked.tool_choice, asked.parallel_tool_calls, len(asked.tools)) == (told, parallel, 1)


async def test_a_reply_is_held_to_a_schema(daemon: Running, engine: ScriptedEngine) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"], "additionalProperties": False}
    answer = await ask(daemon, output_config={"effort": "high", "format": {"type": "json_schema", "schema": schema}})
    assert "title" in json.loads(answer.json()["content"][0]["text"])
    assert part(engine.requests[-1].response_format or {}, "json_schema", "schema") == schema


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"model": None}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "tape"}}]}]}, "source"),
        (
            {"messages": [HELLO, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": 5}]}, HELLO]},
            "input",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]}, "tool_use_id"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"system": 5}, "system"),
        ({"temperature": 1.5}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"stop_sequences": [5]}, "stop_sequences"),
        ({"stream": "yes"}, "stream"),
        ({"thinking": {"type": "much"}}, "thinking.type"),
        ({"tools": [{"name": "x"}]}, "input_schema"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "other"}}, "tool_choice"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"messages": [HELLO, {"role": "assistant", "content": "{"}]}, "prefill"),
    ],
)
async def test_a_bad_value_is_refused_by_its_name(daemon: Running, engine: ScriptedEngine, more: dict[str, Any], named: str) -> None:
    answer = await ask(daemon, **more)
    body = answer.json()
    assert answer.status_code == 400, answer.text
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert named in body["error"]["message"] and engine.requests == []


async def test_errors_have_the_wires_own_shape_and_status(daemon: Running, engine: ScriptedEngine) -> None:
    unknown = await ask(daemon, model="claude-9")
    assert unknown.json()["request_id"] == unknown.headers["x-request-id"]
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "not_found_error")
    bare = await daemon.bare.post("/v1/messages", json={})
    assert (bare.status_code, bare.json()["error"]["type"]) == (401, "authentication_error")
    engine.fail_next = EngineError("The engine is not there.")
    away = await ask(daemon, stream=True)
    assert (away.status_code, away.json()["error"]["type"]) == (529, "overloaded_error")
    engine.fail_next = Busy("The queue is full.", retry_after_s=3)
    busy = await ask(daemon)
    assert (busy.status_code, busy.json()["error"]["type"], busy.headers["retry-after"]) == (429, "rate_limit_error", "3")


async def test_too_long_a_prompt_says_so_in_the_words_that_clients_compact_on(daemon: Running, engine: ScriptedEngine) -> None:
    engine.fail_next = ContextOverflow(
        "This model's maximum context length is 8192 tokens, however you requested 9000 tokens.", "Shorten it."
    )
    answer = await ask(daemon, stream=True)
    message = answer.json()["error"]["message"]
    assert answer.status_code == 400 and "rate limit" not in message.lower()
    assert message.startswith("prompt is too long: 9000 tokens > 8192 maximum") and "maximum context length is 8192 tokens" in message


async def test_a_failure_in_the_stream_is_an_event_and_names_what_is_kept(daemon: Running, engine: ScriptedEngine) -> None:
    engine.fail_after = (1, EngineError("The engine crashed."))
    found = await events(daemon, "a long enough text")
    name, data = found[-1]
    assert name == data["type"] == "error"
    assert data["error"] == {"type": "overloaded_error", "message": "The engine crashed."}
    record = daemon.services.reader.inference(str(data["reef"]["agent_record_id"]))
    assert record.status is Status.ERROR and record.reply["content"] == "echo: a "


async def test_tokens_are_counted_as_the_engine_would_read_them(daemon: Running, engine: ScriptedEngine) -> None:
    body = {"model": "scripted", "system": "Be brief.", "tools": [WEATHER], "messages": [HELLO]}
    counted = (await daemon.client.post("/v1/messages/count_tokens?beta=true", json=body)).json()
    answer = (await daemon.client.post("/v1/messages", json={**body, "max_tokens": 50})).json()
    assert counted == {"input_tokens": answer["usage"]["input_tokens"] + answer["usage"]["cache_read_input_tokens"]}
    under = await daemon.client.post("/reef/scenarios/other/v1/messages/count_tokens", json=body)
    assert under.json() == counted
    assert (await daemon.owner.get("/reef/scenarios/other/releases")).status_code == 404, "counting makes no scenario"
    refused = await daemon.client.post("/v1/messages/count_tokens", json={**body, "messages": "x"})
    assert refused.status_code == 400 and refused.json()["type"] == "error"


async def test_an_engine_without_a_tokeniser_estimates_and_says_so(tmp_path: Path) -> None:
    engine = ScriptedEngine(capabilities=ALL & ~Capability.TOKEN_IDS)
    async with running(tmp_path, engine) as daemon:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "word " * 1000}]}
        counted = (await daemon.client.post("/v1/messages/count_tokens", json=body)).json()
        assert counted["reef"] == {"estimated": True} and 1000 <= counted["input_tokens"] <= 2000
        await ask(daemon)
        assert engine.requests[-1].template_values == {}, "a server that renders for itself may refuse fields that it does not know"


async def test_under_a_scenarios_own_path(daemon: Running) -> None:
    answer = await daemon.client.post(
        "/reef/scenarios/claude/v1/messages", json={"model": "scripted", "max_tokens": 50, "messages": [HELLO]}
    )
    assert daemon.services.reader.inference(answer.headers["x-reef-agent-record-id"]).scenario == "claude"
    bad = await daemon.client.post("/reef/scenarios/claude/v1/messages", json={})
    assert bad.json()["type"] == "error"


async def test_pictures_documents_and_what_others_leave_behind(daemon: Running, engine: ScriptedEngine) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    blocks = [
        {"type": "text", "text": "Look:"},
        picture,
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "title": "Notes", "source": {"type": "text", "media_type": "text/plain", "data": "teal"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
            "cache_control": {"type": "ephemeral"},
        },
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "inside"}]}},
        {"type": "search_result", "source": "https://example.org", "title": "Found", "content": [{"type": "text", "text": "it"}]},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "of tomorrow"},
    ]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [picture]}
    answer = await ask(daemon, messages=[{"role": "user", "content": blocks}, {"role": "user", "content": [result]}])
    assert answer.status_code == 200, answer.text
    shown, returned = daemon.services.reader.inference(answer.headers["x-reef-agent-record-id"]).messages
    pixels = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert shown["content"] == [
        {"type": "text", "text": "Look:"},
        pixels,
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "text", "text": "Notes"},
        {"type": "text", "text": "teal"},
        {"type": "file", "file": {"filename": "document", "file_data": "data:application/pdf;base64,JVBE"}},
        {"type": "text", "text": "inside"},
        {"type": "text", "text": "Found\nhttps://example.org"},
        {"type": "text", "text": "it"},
    ]
    assert returned == {"role": "tool", "tool_call_id": "toolu_1", "content": [pixels]}


async def test_a_turn_in_several_messages_is_one_and_system_texts_stay_in_their_place(daemon: Running, engine: ScriptedEngine) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Zürich"}}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "c", "signature": "x"}]},
        {"role": "assistant", "content": "d"},
        {"role": "system", "content": []},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]},
    ]
    await ask(
        daemon,
        messages=messages,
        system=[{"type": "text", "text": "x-anthropic-billing-header: cc_version=1"}, {"type": "text", "text": "s"}],
    )
    function = {"name": "weather", "arguments": '{"city": "Zürich"}'}
    assert list(engine.requests[-1].messages) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a"},
        {"role": "system", "content": "b"},
        {
            "role": "assistant",
            "content": "d",
            "reasoning_content": "c",
            "tool_calls": [{"id": "toolu_1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "", "tool_call_id": "toolu_1"},
    ]


async def test_while_a_prompt_is_read_pings_go_out_as_events_of_the_wire(
    daemon: Running, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.gateway.answering.KEEP_ALIVE_S", 0.01)
    engine.token_delay_s = 0.05
    answer = await ask(daemon, "hello", stream=True)
    names = [name for name, _ in parsed(answer.text)]
    assert answer.text.startswith(": keep-alive") and names[0] == "message_start", "no event comes before the first"
    assert "ping" in names


async def test_a_candidate_is_evaluated_on_this_wire_without_a_record(daemon: Running) -> None:
    await ask(daemon)
    path = "/reef/scenarios/default/evaluation/head/v1/messages"
    answer = await daemon.owner.post(path, json={"max_tokens": 50, "messages": [HELLO]})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["content"] == [{"type": "text", "text": "echo: hello"}] and body["reef"]["tokens"]["completion"]
    assert "x-reef-agent-record-id" not in answer.headers
    refused = await daemon.client.post(path, json={"max_tokens": 50, "messages": [HELLO]})
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "permission_error")
