"""The OpenAI SDK on the responses wire, as its documentation shows it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import FunctionToolParam, ResponseInputParam
from pydantic import BaseModel

from daemon.records import JSONObject
from tests.daemon.running import Running, running
from tests.engine.fake import Reply, ScriptedEngine

CALL: JSONObject = {"function": {"name": "get_weather", "arguments": '{"location":"Paris"}'}}
TOOL: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "description": "Get current temperature for a given location.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Event(BaseModel):
    name: str
    participants: list[str]


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Running]:
    replies: dict[str, str | Reply] = {
        "weather": Reply("", "Look it up.", (CALL,)),
        "science fair": json.dumps({"name": "fair", "participants": ["Alice", "Bob"]}),
    }
    async with running(tmp_path, ScriptedEngine(replies)) as found:
        yield found


@pytest.fixture
async def sdk(daemon: Running) -> AsyncIterator[AsyncOpenAI]:
    http = httpx.AsyncClient(trust_env=False, verify=False)
    key = daemon.client.headers["authorization"].removeprefix("Bearer ")
    async with AsyncOpenAI(base_url=f"{daemon.url}/v1", api_key=key, http_client=http, max_retries=0) as client:
        yield client


async def test_text_and_its_receipt(daemon: Running, sdk: AsyncOpenAI) -> None:
    raw = await sdk.responses.with_raw_response.create(
        model="scripted", instructions="You are a coding assistant that talks like a pirate.", input="hello", temperature=0
    )
    response = raw.parse()
    assert response.output_text == "echo: hello" and response.status == "completed" and response.error is None
    assert response.usage is not None and response.usage.input_tokens_details.cached_tokens == 0
    assert daemon.services.reader.inference(raw.headers["x-reef-agent-record-id"]).reply["content"] == "echo: hello"


async def test_a_conversation_that_the_client_keeps(sdk: AsyncOpenAI) -> None:
    history: ResponseInputParam = [{"role": "user", "content": "tell me a joke"}]
    first = await sdk.responses.create(model="scripted", input=history, store=False)
    history += [{"role": "assistant", "content": first.output_text}, {"role": "user", "content": "another"}]
    assert (await sdk.responses.create(model="scripted", input=history, store=False)).output_text == "echo: another"
    history = [{"role": "user", "content": "x"}, *first.output, {"role": "user", "content": "and again"}]  # type: ignore[list-item]
    assert (await sdk.responses.create(model="scripted", input=history)).output_text == "echo: and again"


async def test_events_of_a_stream(sdk: AsyncOpenAI) -> None:
    text, last = "", None
    async for event in await sdk.responses.create(model="scripted", input="hello", stream=True):
        last = event
        if event.type == "response.output_text.delta":
            text += event.delta
    assert text == "echo: hello" and last is not None and last.type == "response.completed"
    assert last.response.output_text == text and last.response.usage is not None


async def test_the_sdks_own_accumulator(sdk: AsyncOpenAI) -> None:
    async with sdk.responses.stream(model="scripted", input="weather in Paris?", tools=[TOOL], reasoning={"summary": "auto"}) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert kinds.index("response.reasoning_summary_text.done") < kinds.index("response.function_call_arguments.done")
    assert [item.type for item in final.output] == ["reasoning", "function_call"]


async def test_a_function_is_called_and_its_result_sent_back(sdk: AsyncOpenAI) -> None:
    items: ResponseInputParam = [{"role": "user", "content": "What is the weather in Paris?"}]
    first = await sdk.responses.create(model="scripted", input=items, tools=[TOOL], include=["reasoning.encrypted_content"])
    call = next(item for item in first.output if item.type == "function_call")
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"location": "Paris"})
    items += first.output  # type: ignore[arg-type]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "15"})
    items.append({"role": "user", "content": "thanks"})
    assert (await sdk.responses.create(model="scripted", input=items, tools=[TOOL])).output_text == "echo: thanks"


async def test_a_structured_reply_is_parsed(sdk: AsyncOpenAI) -> None:
    response = await sdk.responses.parse(model="scripted", input="Alice and Bob go to a science fair on Friday.", text_format=Event)
    assert response.output_parsed == Event(name="fair", participants=["Alice", "Bob"])


async def test_pictures_and_log_probabilities(sdk: AsyncOpenAI) -> None:
    content: ResponseInputParam = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "what is in this image?"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
            ],
        }
    ]
    assert (await sdk.responses.create(model="scripted", input=content)).output_text == "echo: what is in this image?"
    shown = await sdk.responses.create(model="scripted", input="x", include=["message.output_text.logprobs"], top_logprobs=2)
    message = shown.output[0]
    assert message.type == "message" and message.content[0].type == "output_text"
    logprobs = message.content[0].logprobs
    assert logprobs and len(logprobs[0].top_logprobs) == 2


async def test_errors_are_the_sdks_own_exceptions(sdk: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="not served here"):
        await sdk.responses.create(model="gpt-9", input="x")
    with pytest.raises(openai.BadRequestError, match="whole conversation"):
        await sdk.responses.create(model="scripted", input="x", previous_response_id="resp_1")
    with pytest.raises(openai.AuthenticationError):
        await sdk.with_options(api_key="wrong").responses.create(model="scripted", input="x")
