"""Conversations for the benchmark of the store: an agent at work on real code and prose, the same from a seed."""

from __future__ import annotations

import inspect
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics
from random import Random

from daemon.experience.packing import to_json
from daemon.records import JSON, Inference, JSONObject, Lineage, Message, Sampling, Step, TokenTrace, Usage, new_id

_PROSE = [" ".join(part.split()) for text in topics.values() for part in text.split("\n\n") if 60 < len(part) < 400 and "---" not in part]
_MODULES = sorted(path for path in Path(inspect.getfile(json)).parent.parent.glob("*.py") if path.stat().st_size > 20_000)
_TOOL_NAMES = ("read_file", "write_file", "edit_file", "list_files", "search_text", "run_command", "fetch_url", "todo", "task", "ask")


def sentence(random: Random) -> str:
    return random.choice(_PROSE)


def tools(random: Random) -> JSON:
    """A list of tools such as an agent sends with each request: about 8 KB."""
    parameters = ("path", "pattern", "offset", "limit", "timeout_s", "description")
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": " ".join(sentence(random) for _ in range(2)),
                "parameters": {
                    "type": "object",
                    "properties": {one: {"type": "string", "description": sentence(random)[:90]} for one in random.sample(parameters, 4)},
                    "required": ["path"],
                },
            },
        }
        for name in _TOOL_NAMES
    ]


def source(random: Random, size_bytes: int) -> tuple[str, str]:
    """A file's name and about so many bytes of it, from a line's start."""
    path = random.choice(_MODULES)
    text = path.read_text(encoding="utf-8", errors="replace")
    start = text.find("\n", random.randrange(max(1, len(text) - size_bytes))) + 1
    return f"src/lib/{path.name}", text[start : start + size_bytes]


def agent_session(session: str, turns: int, seed: int, *, tokens: bool = False) -> Iterator[Inference]:
    """`turns` requests of one agent: system text, tools, calls, results of .5 to 8 KB; the whole history resent each time."""
    random = Random(seed)
    request: JSONObject = {"tools": tools(random), "stream": True, "stream_options": {"include_usage": True}, "tool_choice": "auto"}
    messages: list[Message] = [
        {"role": "system", "content": "\n\n".join(sentence(random) for _ in range(25))},
        {"role": "user", "content": sentence(random)},
    ]
    prompt = [random.randrange(49_000) for _ in range(sum(_text_bytes(message) for message in messages) // 4)]
    for _ in range(turns):
        call = f"call_{random.randbytes(12).hex()}"
        size = int(math.exp(random.uniform(math.log(500), math.log(8000))))
        name, text = source(random, size)
        arguments: JSONObject = {"path": name, "offset": str(random.randrange(2000)), "limit": str(random.randrange(400))}
        reply: Message = {
            "role": "assistant",
            "content": sentence(random)[:120],
            "tool_calls": [
                {"id": call, "type": "function", "function": {"name": random.choice(_TOOL_NAMES[:6]), "arguments": json.dumps(arguments)}}
            ],
        }
        completion = [random.randrange(49_000) for _ in range(_text_bytes(reply) // 4)]
        trace = TokenTrace(tuple(prompt), tuple(completion), tuple(-random.expovariate(2.0) for _ in completion)) if tokens else None
        yield Inference(
            new_id("rec"),
            "default",
            session,
            time.time(),
            "r-20261130-1f0c5a",
            "3f" * 32,
            "smollm2-135m-instruct",
            "chat",
            tuple(messages),
            None,
            reply,
            "tool_calls",
            usage=Usage(len(prompt), len(completion), len(prompt) - 300),
            sampling=Sampling(temperature=0.2, top_p=0.95),
            tokens=trace,
            request=request,
            tags={"client": "pi"},
            first_token_ms=random.uniform(80, 900),
            total_ms=random.uniform(900, 9000),
        )
        result: Message = {"role": "tool", "tool_call_id": call, "content": text}
        messages += [reply, result]
        prompt += [*completion, *(random.randrange(49_000) for _ in range(_text_bytes(result) // 4))]


def short_session(session: str, scenario: str, turns: int, random: Random) -> Iterator[Inference]:
    """`turns` requests of a chat with short messages; the whole history resent each time."""
    messages: list[Message] = [{"role": "system", "content": "You are a coding agent. Answer in one sentence."}]
    lineage = Lineage(Step.BEGIN)
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{sentence(random)[:160]} file_{random.randrange(5000)}.py"})
        reply: Message = {"role": "assistant", "content": f"{sentence(random)[:100]} step_{turn}"}
        receipt = new_id("rec")
        yield Inference(
            receipt, scenario, session, time.time(), f"r{turn // 50}", None, "model", "chat", tuple(messages), None, reply, "stop",
            usage=Usage(60 * turn + 40, 30), request={"stream": True}, lineage=lineage,
            first_token_ms=random.uniform(80, 900), total_ms=900.0,
        )  # fmt: skip
        messages.append(reply)
        lineage = Lineage(Step.CONTINUE, receipt)


def unique_bytes(items: list[Inference]) -> int:
    """UTF-8 bytes of what the records say, once: texts, names, arguments and ids of messages, and request fields as JSON."""
    messages = {to_json(message): message for item in items for message in (*item.messages, item.reply)}
    fields = {to_json(value) for item in items for value in item.request.values()}
    return sum(_text_bytes(message) for message in messages.values()) + sum(len(value) for value in fields)


def _text_bytes(value: JSON) -> int:
    """Bytes of the strings in a JSON value, without names of fields and syntax."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        return sum(_text_bytes(item) for item in value.values())
    return sum(_text_bytes(item) for item in value) if isinstance(value, list) else 0
