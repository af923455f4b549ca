"""Reading a stream as a client does."""

from __future__ import annotations

import json

from daemon.records import JSONObject
from tests.daemon.running import Running


async def stream(daemon: Running, text: str, **more: object) -> tuple[list[JSONObject], list[str]]:
    """A streamed chat: the data frames as objects, and all lines."""
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "stream": True, **more}
    return await post(daemon, "/v1/chat/completions", body)


async def post(daemon: Running, path: str, body: JSONObject | dict[str, object]) -> tuple[list[JSONObject], list[str]]:
    lines: list[str] = []
    async with daemon.client.stream("POST", path, json=body) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        async for line in response.aiter_lines():
            lines.append(line)
    frames = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    return frames, lines


def choices_of(frames: list[JSONObject]) -> list[JSONObject]:
    """The choices of all chunks, in order."""
    found = [frame["choices"] for frame in frames if "choices" in frame]
    return [choice for listed in found if isinstance(listed, list) for choice in listed if isinstance(choice, dict)]


def texts_of(frames: list[JSONObject]) -> dict[int, str]:
    """The text of each choice, by its index."""
    texts: dict[int, str] = {}
    for choice in choices_of(frames):
        index, delta = choice["index"], choice.get("delta")
        text = delta.get("content") if isinstance(delta, dict) else choice.get("text")
        if isinstance(index, int):
            texts[index] = texts.get(index, "") + (text if isinstance(text, str) else "")
    return texts
