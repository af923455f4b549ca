"""Plain replies, streamed and not, and the forms of messages that clients send."""

from __future__ import annotations

import asyncio

from daemon.conformance.outcome import Failed, Skipped, shorten
from daemon.conformance.probe import Probe, user
from daemon.conformance.tools import HARD_TEXT, WEATHER_FREE
from daemon.records import JSONObject, Message

_COUNT = user("Count from one to fifty in words.")
_WIRES = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
    "/completions": "completions",
    "/embeddings": "embeddings",
}


async def wires(probe: Probe) -> str:
    """Which routes there are. An empty request is refused without computing anything."""
    found = {name for path, name in _WIRES.items() if await probe.client.answers(path)}
    probe.facts.wires = frozenset(found)
    if "chat" not in found:
        raise Failed("There is no route /chat/completions.")
    missing = [name for name in _WIRES.values() if name not in found]
    return f"Answers: {', '.join(name for name in _WIRES.values() if name in found)}." + (
        f" Not there: {', '.join(missing)}." if missing else ""
    )


async def reply(probe: Probe) -> str:
    answer = await probe.ask([user("What is the capital of Portugal? Answer in one word.")])
    if not (answer.text or answer.reasoning):
        raise Failed("The reply is empty.")
    if not answer.prompt_tokens or not answer.completion_tokens:
        raise Failed("The reply has no usage: nobody can tell when the window is full.")
    thinks = " The model thinks before it answers." if answer.reasoning else ""
    return f"A whole reply with its usage and its finish reason: {shorten(answer.text, 40)!r}.{thinks}"


async def length(probe: Probe) -> str:
    answer = await probe.ask([_COUNT], max_tokens=8)
    if answer.finish_reason != "length" or answer.completion_tokens > 8:
        raise Failed(f"max_tokens 8 gave {answer.completion_tokens} tokens and the finish reason {answer.finish_reason!r}.")
    return "A reply that is cut off at max_tokens says so."


async def stream(probe: Probe) -> str:
    """The shape of a stream."""
    answer = await probe.ask([_COUNT], stream=True, max_tokens=48)
    if not (answer.text or answer.reasoning):
        raise Failed("The stream is empty.")
    return "One id, one finish reason, and [DONE] at the end."


async def usage(probe: Probe) -> str:
    answer = await probe.ask([_COUNT], stream=True, max_tokens=4)
    if not (answer.prompt_tokens and answer.completion_tokens):
        raise Failed("No usage came at the stream's end, though stream_options.include_usage asked for it.")
    return "A stream ends with its usage, where that was asked for."


async def same(probe: Probe) -> str:
    return await compare(probe, [_COUNT], {"max_tokens": 64})


async def compare(probe: Probe, messages: list[Message], fields: JSONObject) -> str:
    """The same greedy request whole, streamed, and whole again.

    Raises:
        Failed: the streamed reply is another one.
        Skipped: already the two whole ones differ.
    """
    first = await probe.ask(messages, fields)
    streamed = await probe.ask(messages, fields, stream=True)
    if streamed.content == first.content and streamed.reasoning == first.reasoning:
        return "Streamed and unstreamed give the same."
    if (await probe.ask(messages, fields)).content != first.content:
        raise Skipped("The server gives another reply each time at temperature 0, so they cannot be compared.")
    if streamed.content != first.content:
        raise Failed(f"Streamed, the reply is another one: {shorten(streamed.text, 60)!r} instead of {shorten(first.text, 60)!r}.")
    raise Failed("Streamed, the reasoning is another one.")


async def at_once(probe: Probe) -> str:
    """Two streams beside each other: an agent and an editor."""
    both = await asyncio.gather(*(probe.look([_COUNT], stream=True, max_tokens=tokens) for tokens in (48, 47)), return_exceptions=True)
    for answer in both:
        if isinstance(answer, Failed):
            raise Failed(f"Of two requests at once one fails. {answer.sentence}")
        if isinstance(answer, BaseException):
            raise answer
        if answer.problems or not answer.finish_reason:
            raise Failed(f"Of two requests at once one is cut off. {' '.join(answer.problems[:1])}")
    return "Two streams at once both come to their end."


_ROLES: dict[str, list[Message]] = {
    "role developer": [{"role": "developer", "content": "Be brief."}, user("Say hello.")],
    "several system messages": [{"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}, user("Say hello.")],
    "a system message in mid-conversation": [
        user("Say hello."),
        {"role": "assistant", "content": "Hello."},
        {"role": "system", "content": "Be brief."},
        user("Say it again."),
    ],
    "two user messages in a row": [{"role": "system", "content": "Be brief."}, user("Say hello."), user("Say it twice.")],
}

_CONTENTS: dict[str, list[Message]] = {
    "content in parts": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "Say"}, {"type": "text", "text": "hello."}]},
    ],
    "empty content": [user("Say hello."), {"role": "assistant", "content": ""}, user("Say it.")],
    "quotes, line breaks and other scripts": [user(f"Say hello. {HARD_TEXT}")],
    "reasoning that comes back": [
        user("Say hello."),
        {"role": "assistant", "content": "Hello.", "reasoning_content": "They want to be greeted."},
        user("Again."),
    ],
}

_FIELDS: JSONObject = {
    "max_completion_tokens": 4,
    "store": False,
    "prompt_cache_key": "reef-doctor",
    "metadata": {"from": "reef doctor"},
    "parallel_tool_calls": True,
    "tools": [WEATHER_FREE],
    "tool_choice": "auto",
    "top_p": 0.95,
}


async def roles(probe: Probe) -> str:
    return await _accepted(probe, _ROLES)


async def contents(probe: Probe) -> str:
    return await _accepted(probe, _CONTENTS)


async def fields(probe: Probe) -> str:
    """Fields that agents send along."""
    await probe.ask([user("Say hello.")], _FIELDS)
    return f"Accepts {', '.join(name for name in _FIELDS if name not in ('tools', 'tool_choice', 'top_p'))}."


async def _accepted(probe: Probe, forms: dict[str, list[Message]]) -> str:
    refused: list[str] = []
    why = ""
    for name, messages in forms.items():
        try:
            await probe.ask(messages, max_tokens=4)
        except Failed as error:
            refused.append(name)
            why = why or error.sentence
    if refused:
        raise Failed(f"Not accepted: {', '.join(refused)}. {why}")
    return f"Accepts {', '.join(forms)}."
