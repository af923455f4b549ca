"""What a client can ask of a reply beyond its text reaches the engine, or is refused by name; it is never ignored in silence."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from daemon.engine.base import Capability
from daemon.errors import EngineError
from daemon.records import JSON, JSONObject
from tests.daemon.running import running
from tests.engine.examples import PERSON, PERSON_FORMAT, WEATHER
from tests.engine.fake import ALL, Reply, ScriptedEngine
from tests.gateway.frames import choices_of, stream, texts_of

SENT_ALONG = (
    *("store", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "reasoning", "thinking", "output_config"),
    *("client_metadata", "include", "metadata", "service_tier", "cache_control", "strict", "context_management", "user", "verbosity"),
)
NAMED: JSONObject = {"type": "function", "function": {"name": "weather"}}


async def test_each_field_reaches_the_engine(tmp_path: Path) -> None:
    engine = ScriptedEngine({"x": "y"})
    async with running(tmp_path, engine) as daemon:
        response = await daemon.chat(
            "x",
            logprobs=True,
            top_logprobs=3,
            logit_bias={"7": -100, "9": 2.5},
            tools=[WEATHER],
            tool_choice=NAMED,
            parallel_tool_calls=False,
            response_format=PERSON_FORMAT,
            chat_template_kwargs={"enable_thinking": False, "effort": "low", "budget": 3},
            reasoning_effort="low",
        )
        assert response.status_code == 200, response.text
        asked = engine.requests[0]
        assert asked.top_logprobs == 3 and asked.sampling.logit_bias == ((7, -100.0), (9, 2.5))
        assert (asked.tools, asked.tool_choice, asked.parallel_tool_calls) == ((WEATHER,), NAMED, False)
        assert asked.response_format == PERSON_FORMAT
        assert asked.template_values == {"enable_thinking": False, "effort": "low", "budget": 3} and asked.extra == {
            "reasoning_effort": "low"
        }
        record = daemon.services.reader.inference(response.headers["x-reef-agent-record-id"])
        assert record.sampling.logit_bias == asked.sampling.logit_bias and record.request["response_format"] == PERSON_FORMAT
        await daemon.chat("x", response_format={"type": "text"}, tool_choice="auto", logprobs=False, top_logprobs=0, tools=[])
        plain = engine.requests[1]
        assert (plain.top_logprobs, plain.response_format, plain.tool_choice, plain.parallel_tool_calls) == (None, None, "auto", True)


@pytest.mark.parametrize("value", ["text", 3, True, None, {"type": "enabled", "user_id": 5}, [{"type": "unknown"}]])
async def test_what_agents_send_along_is_accepted_whatever_it_holds_and_changes_nothing(tmp_path: Path, value: JSON) -> None:
    engine = ScriptedEngine({"x": "y"})
    async with running(tmp_path, engine) as daemon:
        parts = [{"type": "text", "text": "x", "cache_control": value}]
        function = WEATHER["function"]
        assert isinstance(function, dict)
        tool = {**WEATHER, "cache_control": value, "function": {**function, "strict": value}}
        unread = [{"type": kind, "name": "other", "config": value} for kind in ("namespace", "web_search", "custom")]
        response = await daemon.client.post(
            "/v1/chat/completions",
            json={
                "model": "scripted",
                "messages": [{"role": "user", "content": parts, "cache_control": value}],
                "tools": [*unread, tool],
                **dict.fromkeys(SENT_ALONG, value),
            },
        )
        assert response.status_code == 200, response.text
        plain = await daemon.chat("x", tools=[WEATHER], temperature=1)
        assert response.json()["choices"] == plain.json()["choices"]
        asked, as_usual = engine.requests
        assert [message["content"] for message in asked.messages] == ["x"] and len(asked.tools) == 1
        assert (asked.sampling, asked.template_values, asked.response_format) == (as_usual.sampling, {}, None)


async def test_tools_that_may_not_be_called_stay_in_the_prompt(tmp_path: Path) -> None:
    """Left out, they would change the prompt from its beginning on, and the whole conversation would be read again."""
    engine = ScriptedEngine({"x": Reply("no", tool_calls=({"function": {"name": "weather", "arguments": "{}"}},))})
    async with running(tmp_path, engine) as daemon:
        choice = (await daemon.chat("x", tools=[WEATHER], tool_choice="none")).json()["choices"][0]
        assert (engine.requests[0].tools, engine.requests[0].tool_choice) == ((WEATHER,), "none")
        assert "tool_calls" not in choice["message"] and choice["finish_reason"] == "stop"


async def test_log_probabilities_are_the_same_streamed_and_not(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        choice = (await daemon.chat("hi", logprobs=True, top_logprobs=2)).json()["choices"][0]
        content = choice["logprobs"]["content"]
        assert "".join(entry["token"] for entry in content) == choice["message"]["content"]
        assert all(entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 2 for entry in content)
        frames, _ = await stream(daemon, "hi", logprobs=True, top_logprobs=2)
        streamed = [part["logprobs"] for part in choices_of(frames) if part["logprobs"]]
        assert [entry for part in streamed for entry in part["content"]] == content  # type: ignore[index, call-overload]
        assert (await daemon.chat("hi")).json()["choices"][0]["logprobs"] is None


async def test_a_schema_and_a_forced_call_hold_the_reply(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        text = (await daemon.chat("who?", response_format=PERSON_FORMAT)).json()["choices"][0]["message"]["content"]
        jsonschema.validate(json.loads(text), PERSON)
        frames, _ = await stream(daemon, "who?", response_format={"type": "json_object"})
        assert isinstance(json.loads(texts_of(frames)[0]), dict)
        forced = (await daemon.chat("weather?", tools=[WEATHER], tool_choice="required")).json()["choices"][0]
        assert forced["finish_reason"] == "tool_calls" and forced["message"]["tool_calls"][0]["function"]["name"] == "weather"


@pytest.mark.parametrize(
    ("lacking", "field", "value"),
    [
        (Capability.STRUCTURE, "response_format", {"type": "json_object"}),
        (Capability.STRUCTURE, "tool_choice", "required"),
        (Capability.STRUCTURE, "tool_choice", NAMED),
        (Capability.LOGPROBS, "logprobs", True),
    ],
)
async def test_what_the_engine_cannot_do_is_refused_and_not_ignored(tmp_path: Path, lacking: Capability, field: str, value: JSON) -> None:
    async with running(tmp_path, ScriptedEngine(capabilities=ALL & ~lacking)) as daemon:
        for streaming in (False, True):
            response = await daemon.chat("x", stream=streaming, tools=[WEATHER], **{field: value})
            assert response.status_code == 400 and response.json()["error"]["param"] == field


async def test_what_is_asked_wrongly_is_named(tmp_path: Path) -> None:
    cases: list[tuple[str, JSON]] = [
        ("logprobs", 3),
        ("top_logprobs", 21),
        ("top_logprobs", 2),  # without logprobs
        ("logit_bias", [1]),
        ("logit_bias", {"hello": 1}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {"²": 1}),
        ("logit_bias", {"9" * 30: 1}),
        ("logit_bias", {"7": 101}),
        ("logit_bias", {"7": True}),
        ("logit_bias", {str(token): 1 for token in range(1025)}),
        ("functions", [{"name": "weather", "parameters": {}}]),  # the form before tools
        ("tool_choice", "required"),  # without tools
        ("tool_choice", NAMED),
        ("tool_choice", "any"),
        ("tool_choice", {"type": "function"}),
        ("tool_choice", 7),
        ("parallel_tool_calls", "no"),
        ("response_format", "json"),
        ("response_format", {"type": "json_schema"}),
        ("response_format", {}),
        ("chat_template_kwargs", [1]),
        ("chat_template_kwargs", {"messages": []}),
        ("chat_template_kwargs", {"long": "x" * 5000}),
        ("chat_template_kwargs", {f"n{n}": 1 for n in range(33)}),
        ("tools", [{"type": "function", "function": {"name": "f", "parameters": []}}]),
    ]
    engine = ScriptedEngine()
    async with running(tmp_path, engine) as daemon:
        for field, value in cases:
            response = await daemon.chat("x", **{field: value})
            error = response.json()["error"]
            assert response.status_code == 400, (field, value)
            assert error["param"].startswith(field) and len(error["message"]) < 300, (field, value, error)
        unknown = await daemon.chat("x", tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "launch"}})
        assert unknown.status_code == 400 and "launch" in unknown.json()["error"]["message"]
        assert engine.requests == []


async def test_an_engine_that_starts_again_says_when_to_come_back(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    async with running(tmp_path, engine) as daemon:
        engine.fail_next = EngineError("The engine is starting again.", retry_after_s=4)
        response = await daemon.chat("x")
        assert response.status_code == 503 and response.headers["retry-after"] == "4"
