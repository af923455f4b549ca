"""A streamed reply of an OpenAI-compatible server, chat or plain completion, as events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import httpx

from daemon import json_text
from daemon.engine.base import Delta, Event, Finished
from daemon.engine.upstream.errors import stream_error
from daemon.engine.upstream.reader import ReplyReader
from daemon.errors import EngineError
from daemon.records import JSON, JSONObject, Usage

_LINE_LIMIT_BYTES = 16 << 20
_REPLY_LIMIT_BYTES = 64 << 20  # of a reply that never ends
_IMPOSSIBLE = 9999.0  # what servers write for a log-probability of minus infinity


class ChatReader(ReplyReader):
    """One reply, taken in line by line."""

    def __init__(self) -> None:
        self._finish_reason = ""
        self._usage = Usage(0, 0)
        self._pieces = 0

    def take(self, data: str) -> list[Event]:
        if data == "[DONE]":
            return []
        try:
            chunk: JSON = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.") from error
        if not isinstance(chunk, dict):
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
        if chunk.get("error") is not None:
            raise stream_error(chunk["error"])
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choice := choices[0], dict):
            return []
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._finish_reason = reason
        event = _delta(choice)
        if event == Delta():
            return []
        self._pieces += 1
        return [event]

    def take_whole(self, body: JSONObject) -> list[Event]:
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
        self._take_usage(body.get("usage"))
        reason = choice.get("finish_reason")
        self._finish_reason = reason if isinstance(reason, str) else ""
        return [_delta({**choice, "delta": choice["message"]} if "message" in choice else choice)]

    def finished(self) -> Finished:
        if not self._finish_reason:
            raise EngineError("The upstream broke off in the middle of its reply.", "Send the request again.")
        usage = self._usage if self._usage.completion_tokens else Usage(self._usage.prompt_tokens, self._pieces)
        return Finished(self._finish_reason, usage)

    def _take_usage(self, usage: JSON) -> None:
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            self._usage = Usage(whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens")), whole(cached))


async def data_lines(response: httpx.Response) -> AsyncGenerator[str, None]:
    """What the `data:` lines of a server-sent event stream hold."""
    pending, received = b"", 0
    async for block in response.aiter_bytes():
        pending += block
        received += len(block)
        if received > _REPLY_LIMIT_BYTES:
            raise EngineError("The upstream sent a reply without end.", "Set max_tokens, and look at its log.")
        if len(pending) > _LINE_LIMIT_BYTES:
            raise EngineError("The upstream sent a line without end.", "Look at its log.")
        *lines, pending = pending.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip().decode(errors="replace")
    if pending.startswith(b"data:"):
        yield pending[5:].strip().decode(errors="replace")


def whole(value: JSON) -> int:
    """A count; whatever is none is 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _delta(choice: JSONObject) -> Delta:
    logprobs = choice.get("logprobs")
    shown = _logprobs(logprobs) if isinstance(logprobs, dict) else ()
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        text = choice.get("text")  # a plain completion's
        return Delta(text=text if isinstance(text, str) else "", logprobs=shown)
    content, calls = delta.get("content"), delta.get("tool_calls")
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")
    return Delta(
        text=content if isinstance(content, str) else "",
        reasoning=reasoning if isinstance(reasoning, str) else "",
        tool_calls=tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
        logprobs=shown,
    )


def _logprobs(logprobs: JSONObject) -> tuple[JSONObject, ...]:
    """The chat wire's entries; those of the older completions wire (parallel arrays) are turned into them."""
    content = logprobs.get("content")
    if isinstance(content, list):
        return tuple(_checked(entry) for entry in content if isinstance(entry, dict))
    tokens, values, tops = logprobs.get("tokens"), logprobs.get("token_logprobs"), logprobs.get("top_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list):
        return ()
    others = tops if isinstance(tops, list) else []
    found: list[JSONObject] = []
    for index, (token, value) in enumerate(zip(tokens, values, strict=False)):
        alternatives = others[index] if index < len(others) else None
        shown: list[JSON] = [_entry(name, each) for name, each in alternatives.items()] if isinstance(alternatives, dict) else []
        found.append({**_entry(token, value), "top_logprobs": shown})
    return tuple(found)


def _checked(entry: JSONObject) -> JSONObject:
    tops = entry.get("top_logprobs")
    shown: list[JSON] = [
        _entry(top.get("token"), top.get("logprob")) for top in (tops if isinstance(tops, list) else []) if isinstance(top, dict)
    ]
    return {**_entry(entry.get("token"), entry.get("logprob"), entry.get("bytes")), "top_logprobs": shown}


def _entry(token: JSON, logprob: JSON, given: JSON = None) -> JSONObject:
    """`bytes` may say what the token's text cannot: half a character. What is no finite number is as good as impossible."""
    text = token if isinstance(token, str) else ""
    value = min(0.0, logprob) if isinstance(logprob, int | float) and logprob > -_IMPOSSIBLE else -_IMPOSSIBLE
    own: list[JSON] = list(text.encode("utf-8", "surrogatepass"))
    known = given if isinstance(given, list) and all(isinstance(each, int) and 0 <= each < 256 for each in given) else own
    return {"token": text, "logprob": value, "bytes": known}


async def read_json(response: httpx.Response) -> JSON:
    """The whole body, bounded; None for what is no JSON."""
    body = b""
    async for block in response.aiter_bytes():
        body += block
        if len(body) > _REPLY_LIMIT_BYTES:
            raise EngineError("The upstream sent a reply without end.", "Look at its log.")
    try:
        return json_text.parse(body)
    except ValueError:
        return None
