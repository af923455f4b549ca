"""The Anthropic SDK, as its documentation shows it, against the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, ToolParam
from pydantic import BaseModel

from daemon.errors import Busy, EngineError
from daemon.records import JSONObject
from tests.daemon.running import Running, running
from tests.engine.fake import Reply, ScriptedEngine

CALL: JSONObject = {"function": {"name": "get_weather", "arguments": '{"location":"Paris"}'}}
WEATHER: ToolParam = {
    "name": "get_weather",
    "description": "Get the current weather in a given location",
    "input_schema": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
HELLO: MessageParam = {"role": "user", "content": "Hello, Claude"}


class Contact(BaseModel):
    name: str
    plan: str


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine({"weather": Reply("I look.", tool_calls=(CALL,)), "27 * 453": Reply("12231", reasoning="multiply")})


@pytest.fixture
async def daemon(tmp_path: Path, engine: ScriptedEngine) -> AsyncIterator[Running]:
    async with running(tmp_path, engine) as found:
        yield found


@pytest.fixture
async def sdk(daemon: Running) -> AsyncIterator[AsyncAnthropic]:
    http = anthropic.DefaultAsyncHttpxClient(trust_env=False, verify=False)
    key = daemon.client.headers["authorization"].removeprefix("Bearer ")
    async with AsyncAnthropic(base_url=daemon.url, api_key=key, http_client=http, max_retries=0) as client:
        yield client


async def test_create(daemon: Running, sdk: AsyncAnthropic) -> None:
    raw = await sdk.messages.with_raw_response.create(model="scripted", max_tokens=1024, system="Be kind.", messages=[HELLO])
    message = await raw.parse()
    assert message.content[0].type == "text" and message.content[0].text == "echo: Hello, Claude"
    assert (message.stop_reason, message.role) == ("end_turn", "assistant") and message.usage.output_tokens > 0
    assert daemon.services.reader.inference(raw.headers["x-reef-agent-record-id"]).messages[0]["role"] == "system"


async def test_stream(sdk: AsyncAnthropic) -> None:
    shown = ""
    async with sdk.messages.stream(model="scripted", max_tokens=1024, messages=[HELLO]) as stream:
        async for text in stream.text_stream:
            shown += text
        final = await stream.get_final_message()
    assert shown == "echo: Hello, Claude" and final.content[0].type == "text" and final.content[0].text == shown
    assert final.usage.input_tokens > 0 and final.stop_reason == "end_turn"
    kinds = [event.type async for event in await sdk.messages.create(model="scripted", max_tokens=9, messages=[HELLO], stream=True)]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"


async def test_a_tool_is_called_and_its_result_sent_back(sdk: AsyncAnthropic) -> None:
    messages: list[MessageParam] = [{"role": "user", "content": "What is the weather in Paris?"}]
    async with sdk.messages.stream(model="scripted", max_tokens=1024, tools=[WEATHER], messages=messages) as stream:
        first = await stream.get_final_message()
    call = next(block for block in first.content if block.type == "tool_use")
    assert (first.stop_reason, call.name, call.input) == ("tool_use", "get_weather", {"location": "Paris"})
    messages += [
        {"role": "assistant", "content": first.content},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "15 degrees"}, {"type": "text", "text": "thanks"}],
        },
    ]
    second = await sdk.messages.create(model="scripted", max_tokens=1024, tools=[WEATHER], messages=messages)
    assert second.content[0].type == "text" and second.content[0].text == "echo: thanks"


async def test_extended_thinking(sdk: AsyncAnthropic) -> None:
    async with sdk.messages.stream(
        model="scripted",
        max_tokens=16000,
        thinking={"type": "enabled", "budget_tokens": 10000},
        messages=[{"role": "user", "content": "What is 27 * 453?"}],
    ) as stream:
        final = await stream.get_final_message()
    thinking, text = final.content
    assert thinking.type == "thinking" and thinking.thinking == "multiply" and thinking.signature
    assert text.type == "text" and text.text == "12231"


async def test_structured_outputs(sdk: AsyncAnthropic) -> None:
    answer = await sdk.messages.parse(model="scripted", max_tokens=1024, messages=[HELLO], output_format=Contact)
    assert isinstance(answer.parsed_output, Contact)


async def test_count_tokens_and_the_list_of_models(sdk: AsyncAnthropic) -> None:
    count = await sdk.messages.count_tokens(model="scripted", system="Be kind.", tools=[WEATHER], messages=[HELLO])
    assert count.input_tokens > 10
    models = [model async for model in sdk.models.list(limit=20)]
    assert [(model.id, model.type) for model in models] == [("scripted", "model"), ("scripted@r1", "model")]
    found = await sdk.models.retrieve("scripted")
    assert (found.id, found.display_name, found.max_input_tokens) == ("scripted", "scripted", 65536)


async def test_errors_are_the_sdks_own_exceptions(sdk: AsyncAnthropic, engine: ScriptedEngine) -> None:
    with pytest.raises(anthropic.NotFoundError, match="not served here"):
        await sdk.messages.create(model="claude-9", max_tokens=9, messages=[HELLO])
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        await sdk.messages.create(model="scripted", max_tokens=0, messages=[HELLO])
    with pytest.raises(anthropic.AuthenticationError):
        await sdk.with_options(api_key="wrong").messages.create(model="scripted", max_tokens=9, messages=[HELLO])
    with pytest.raises(anthropic.NotFoundError):
        await sdk.models.retrieve("claude-9")
    engine.fail_next = Busy("The queue is full.")
    with pytest.raises(anthropic.RateLimitError):
        await sdk.messages.create(model="scripted", max_tokens=9, messages=[HELLO])
    engine.fail_next = EngineError("The engine is not there.")
    with pytest.raises(anthropic.InternalServerError) as caught:
        await sdk.messages.create(model="scripted", max_tokens=9, messages=[HELLO])
    assert caught.value.status_code == 529
    engine.fail_after = (1, EngineError("The engine crashed."))
    with pytest.raises(anthropic.APIStatusError, match="crashed"):
        async with sdk.messages.stream(model="scripted", max_tokens=90, messages=[HELLO]) as stream:
            await stream.get_final_message()
