"""An OpenAI-compatible server in this process that does everything right, unless one of its `faults` is switched on."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx

WINDOW = 8192
NAME = "perfect"
BLOCK = "sums.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE"


class PerfectServer:
    """A transport for httpx: nothing leaves the process. Its model calls the first tool whenever the last message says `call`, `tool`, …"""

    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)
        self.bodies: list[dict[str, Any]] = []
        self.gone = False
        self._count = 0
        self._told = WINDOW

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def has(self, fault: str) -> bool:
        return fault in self.faults

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.gone:
            raise httpx.ConnectError("All connection attempts failed")
        answer = self._handle(request)
        if self.has("dies of unicode") and "write_note" in request.content.decode():
            self.gone = True
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        if self.has("falls silent") and len(self.bodies) > 1:
            await asyncio.sleep(60)
        return answer

    def _handle(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            window = {} if self.has("tells no window") else {"context_length": WINDOW}
            return httpx.Response(200, json={"data": [{"id": NAME, **window}]})
        body = json.loads(request.content)
        path = request.url.path.removeprefix("/v1")
        if path != "/chat/completions" or not body:
            return httpx.Response(400 if path in ("/chat/completions", "/completions") else 404, json={"error": {"message": "No."}})
        self.bodies.append(body)
        self._count += 1
        refusal = self._refusal(body)
        if refusal:
            status, text, code = refusal
            return httpx.Response(status, json={"error": {"message": text, "code": code}})
        text, calls = self._reply(body)
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 1000
        reason = "tool_calls" if calls else "stop"
        if len(text.split()) > limit:
            text = " ".join(text.split()[: limit + (5 if self.has("ignores max_tokens") else 0)])
            reason = "stop" if self.has("hides the cut") else "length"
        if calls and self.has("says stop after calls"):
            reason = "stop"
        if body.get("stream"):
            return self._streamed(body, text, calls, reason)
        message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {} if self.has("no usage") else {"usage": self._usage(body, text)}
        reef = {"reef": {"note": "a call could not be read"}} if self.has("notes unread calls") else {}
        return httpx.Response(
            200, json={"id": f"chatcmpl-{self._count}", "object": "chat.completion", "choices": [choice], **usage, **reef}
        )

    def _usage(self, body: dict[str, Any], text: str) -> dict[str, int]:
        read = len(_words({**body, "tools": None} if self.has("drops tools") else body))
        return {"prompt_tokens": min(read, WINDOW) if self.has("cuts in silence") else read, "completion_tokens": max(1, len(text.split()))}

    def _refusal(self, body: dict[str, Any]) -> tuple[int, str, str] | None:
        if self.has("is down"):
            return 503, "Loading model", "unavailable"
        roles = [message["role"] for message in body["messages"]]
        contents = [message.get("content") for message in body["messages"]]
        if self.has("knows no developer") and "developer" in roles:
            return 400, "Unexpected role developer.", ""
        if self.has("wants alternation") and any(a == b == "user" for a, b in itertools.pairwise(roles)):
            return 500, "Conversation roles must alternate.", ""
        if self.has("wants system first") and "system" in roles[1:]:
            return 400, "System message must be at the beginning.", ""
        if self.has("reads no parts") and any(isinstance(content, list) for content in contents):
            return 400, "content must be a string", ""
        if self.has("no parts from tools") and any(role == "tool" and isinstance(c, list) for role, c in zip(roles, contents, strict=True)):
            return 422, "content must be a string", ""
        if self.has("no history without tools") and "tool" in roles and not body.get("tools"):
            return 500, "tools is undefined", ""
        if self.has("refuses unknown fields") and "prompt_cache_key" in body:
            return 400, "Unrecognized request argument: prompt_cache_key", ""
        if self.has("forces no calls") and isinstance(body.get("tool_choice"), dict):
            return 400, "tool_choice is not supported", "unsupported"
        if self.has("offers no forms") and body.get("response_format"):
            return 400, "response_format is not supported", "unsupported"
        if self.has("few tools") and len(body.get("tools") or ()) > 20:
            return 400, f"maximum context length is {WINDOW} tokens", "context_length_exceeded"
        choice = body.get("tool_choice")
        if isinstance(choice, dict) and not self.has("takes any name"):
            names = [tool["function"]["name"] for tool in body["tools"]]
            if choice["function"]["name"] not in names:
                return 400, "There is no such tool.", ""
        if len(_words(body)) > WINDOW and not self.has("cuts in silence"):
            if self.has("calls overflow a rate limit"):
                return 400, "Rate limit: too many tokens for the context window", ""
            if self.has("overflows with 500"):
                return 500, "context window exceeded", ""
            if self.has("overflows with a riddle"):
                return 400, "The input could not be used.", ""
            return 400, f"This model's maximum context length is {WINDOW} tokens, however you requested more.", "context_length_exceeded"
        return None

    def _reply(self, body: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return ("It is sunny." if self.has("ignores results") else f"It says: {last['content']}"), []
        form = body.get("response_format")
        if form:
            return self._formed(form), []
        tools = body.get("tools") or []
        choice = body.get("tool_choice", "auto")
        text = str(last["content"])
        if isinstance(choice, dict) and not self.has("ignores tool_choice"):
            tools = [tool for tool in tools if tool["function"]["name"] == choice["function"]["name"]] or tools
            return "", [self._call(tools[0], "", forced=True)]
        if choice == "required" and not self.has("ignores required"):
            return "", [self._call(tools[0], "", forced=True)]
        if choice == "none" and not self.has("ignores none"):
            tools = []
        if tools and ("tool" in text or "Call" in text or "file" in text) and not self.has("never calls"):
            if self.has("writes calls as text"):
                return f'<tool_call>{{"name": "{tools[0]["function"]["name"]}", "arguments": {{}}}}</tool_call>', []
            cities = [city for city in ("Lisbon", "Oslo") if city in text] or [text]
            if self.has("calls once"):
                cities = cities[:1]
            return "", [self._call(tools[0], city) for city in cities]
        if "def add" in text:
            return "Sure!" if self.has("cannot write code") else BLOCK, []
        if self.has("never the same"):
            return f"Reply number {self._count}.", []
        return " ".join(
            f"{word}{'!' if body.get('stream') and self.has('streams another text') else ''}" for word in ("one two three " * 30).split()
        ), []

    def _call(self, tool: dict[str, Any], text: str, *, forced: bool = False) -> dict[str, Any]:
        function = tool["function"]
        schema = function.get("parameters", {"type": "object"})
        name = "reef_unknown" if self.has("invents names") else function["name"]
        if forced and self.has("breaks the schema"):
            arguments = json.dumps({"surprise": True})
        elif self.has("breaks the JSON"):
            arguments = '{"city": '
        else:
            arguments = json.dumps(
                _instance(schema, "Lisbon" if forced else "notes.txt" if "file" in text else text), ensure_ascii=self.has("escapes")
            )
        if self.has("mangles text"):
            arguments = arguments.replace("漢", "?")
        self._told += 1
        call_id = "" if self.has("calls have no id") else "call_1" if self.has("one id for all") else f"call_{self._told}"
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _formed(self, form: dict[str, Any]) -> str:
        if self.has("forms with a fence"):
            return "```json\n{}\n```"
        if form["type"] == "json_object":
            return "[1]" if self.has("arrays for objects") else '{"sunny": true}'
        value = _instance(form["json_schema"]["schema"], "Lisbon")
        return json.dumps({**value, "days": ["many"]} if self.has("forms by guess") else value)

    def _streamed(self, body: dict[str, Any], text: str, calls: list[dict[str, Any]], reason: str) -> httpx.Response:
        lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in self._chunks(body, text, calls, reason)]
        kind = "application/json" if self.has("streams as JSON") else "text/event-stream"
        if self.has("breaks off") and len(self.bodies) % 2:
            return httpx.Response(200, text="".join(lines[:2]), headers={"content-type": kind})
        end = "" if self.has("no DONE") else "data: [DONE]\n\n"
        return httpx.Response(200, text=": keep-alive\n\n" + "".join(lines) + end, headers={"content-type": kind})

    def _chunks(self, body: dict[str, Any], text: str, calls: list[dict[str, Any]], reason: str) -> Iterator[dict[str, Any]]:
        reply_id = f"chatcmpl-{self._count}"

        def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return {
                "id": f"{reply_id}-{id(delta)}" if self.has("many ids") else reply_id,
                "object": "chat.completion.chunk",
                "choices": [choice],
            }

        yield chunk({"role": "assistant", "content": ""})
        for piece in re.findall(r"\S+\s*", text):
            yield chunk({"content": piece})
        for index, call in enumerate(calls):
            function, place = call["function"], {} if self.has("no index") else {"index": index}
            kind = {} if self.has("no type") else {"type": "function"}
            yield chunk({"tool_calls": [{**place, "id": call["id"], **kind, "function": {"name": function["name"], "arguments": ""}}]})
            half = len(function["arguments"]) // 2
            again = {"name": function["name"]} if self.has("repeats names") else {}
            for piece in (function["arguments"][:half], function["arguments"][half:]):
                yield chunk({"tool_calls": [{**place, "function": {**again, "arguments": piece}}]})
        if not self.has("no finish reason"):
            yield chunk({}, reason)
        if self.has("talks on"):
            yield chunk({"content": "And another thing."})
        if not self.has("no usage"):
            yield {"id": reply_id, "choices": [], "usage": self._usage(body, text)}


def _words(body: dict[str, Any]) -> list[str]:
    return json.dumps([body["messages"], body.get("tools")], ensure_ascii=False).split()


def _instance(schema: dict[str, Any], text: str) -> Any:
    """A value that fits the schema; texts that it leaves open are `text`."""
    if "enum" in schema:
        return text if text in schema["enum"] else schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: _instance(inner, text) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [_instance(schema["items"], text) for _ in range(schema.get("minItems", 1))]
    return {"boolean": True, "integer": 1, "number": 1.5}.get(str(kind), text)
