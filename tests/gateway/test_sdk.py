"""The OpenAI SDK, as its documentation shows it, against the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from daemon.records import JSONObject
from tests.daemon.running import Running, running
from tests.engine.fake import Reply, ScriptedEngine

CALL: JSONObject = {"function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
]


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path, ScriptedEngine({"weather": Reply(tool_calls=(CALL,))})) as found:
        yield found


@pytest.fixture
async def sdk(daemon: Running) -> AsyncIterator[AsyncOpenAI]:
    http = httpx.AsyncClient(trust_env=False, verify=False)
    key = daemon.client.headers["authorization"].removeprefix("Bearer ")
    async with AsyncOpenAI(base_url=f"{daemon.url}/v1", api_key=key, http_client=http, max_retries=0) as client:
        yield client


async def test_a_completion_and_its_receipt(daemon: Running, sdk: AsyncOpenAI) -> None:
    raw = await sdk.chat.completions.with_raw_response.create(
        model="scripted", messages=[{"role": "user", "content": "hello"}], temperature=0
    )
    completion = raw.parse()
    assert completion.choices[0].message.content == "echo: hello"
    assert completion.usage is not None and completion.usage.prompt_tokens > 0
    assert daemon.services.reader.inference(raw.headers["x-reef-agent-record-id"]).reply["content"] == "echo: hello"


async def test_a_stream_with_usage(sdk: AsyncOpenAI) -> None:
    text, usage = "", None
    chunks = await sdk.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "hello"}], stream=True, stream_options={"include_usage": True}
    )
    async for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
    assert text == "echo: hello" and usage is not None and usage.completion_tokens > 0


async def test_a_tool_is_called_and_its_result_sent_back(sdk: AsyncOpenAI) -> None:
    messages: list[object] = [{"role": "user", "content": "weather in Paris?"}]
    first = await sdk.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)  # type: ignore[call-overload]
    call = first.choices[0].message.tool_calls[0]
    assert first.choices[0].finish_reason == "tool_calls" and call.function.name == "weather"
    messages += [first.choices[0].message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    messages.append({"role": "user", "content": "thanks"})
    second = await sdk.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)  # type: ignore[call-overload]
    assert second.choices[0].message.content == "echo: thanks"


async def test_errors_are_the_sdks_own_exceptions(sdk: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="not served here"):
        await sdk.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "x"}])
    with pytest.raises(openai.BadRequestError, match="temperature"):
        await sdk.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "x"}], temperature=7)
    with pytest.raises(openai.AuthenticationError):
        await sdk.with_options(api_key="wrong").models.list()
    assert [model.id async for model in sdk.models.list()] == ["scripted", "scripted@r1"]


async def test_completions_embeddings_and_log_probabilities(sdk: AsyncOpenAI) -> None:
    completion = await sdk.completions.create(model="scripted", prompt="go on", max_tokens=60)
    assert completion.choices[0].text == "echo: go on" and completion.usage is not None
    text = ""
    async for chunk in await sdk.completions.create(model="scripted", prompt="go on", max_tokens=60, stream=True):
        text += "".join(choice.text for choice in chunk.choices)
    assert text == "echo: go on"
    found = await sdk.embeddings.create(model="scripted", input=["a", "b"])  # the SDK asks for base64 by itself
    assert len(found.data) == 2 and isinstance(found.data[0].embedding[0], float)
    chat = await sdk.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "x"}], logprobs=True, top_logprobs=2)
    shown = chat.choices[0].logprobs
    assert shown is not None and shown.content is not None
    assert "".join(entry.token for entry in shown.content) == chat.choices[0].message.content
    assert all(len(entry.top_logprobs) == 2 for entry in shown.content)
