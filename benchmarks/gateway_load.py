"""The clients of the gateway's benchmark: conversations of coding agents, one at a time or many, and what they see."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from dataclasses import dataclass

import aiohttp

_WORDS = ["parser", "session", "commit", "value", "returns", "the", "of", "error", "test", "module", "line", "write", "store", "a", "for"]
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Target:
    """A server with the upstream's routes."""

    name: str
    url: str  # with /v1
    token: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the clients saw of one server in one round."""

    requests_per_s: float
    p50_ms: float  # of a request; in streams, until the first piece
    receipts: int
    requests: int


class Conversations:
    """Request bodies: a system text, some turns, and a text of its own, so that every one is a conversation of its own."""

    def __init__(self, size_bytes: int, *, stream: bool) -> None:
        chance = random.Random(7)

        def text(length: int) -> str:
            return " ".join(chance.choices(_WORDS, k=length // 6))

        system = {"role": "system", "content": text(min(2000, size_bytes // 2))}
        filler = [
            {"role": "assistant" if number % 2 else "user", "content": text(2000)} for number in range(max(1, (size_bytes - 2000) // 2000))
        ]
        body = {"model": "scripted", "stream": stream, "messages": [system, {"role": "user", "content": "Task @@: go."}, *filler]}
        body["messages"].append({"role": "user", "content": "And now @@?"})  # type: ignore[attr-defined]
        self._before, self._between, self._after = json.dumps(body, separators=(",", ":")).encode().split(b"@@")

    def next(self) -> bytes:
        number = b"%d-%d" % (next(_numbers), time.monotonic_ns())
        return number.join((self._before, self._between, self._after))


class Load:
    """Keeps a connection pool a target."""

    def __init__(self, targets: list[Target]) -> None:
        self._targets = targets

    async def __aenter__(self) -> Load:
        self._sessions = {
            target.name: aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                headers={"content-type": "application/json", "authorization": f"Bearer {target.token}"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            for target in self._targets
        }
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in self._sessions.values():
            await session.close()

    async def run(self, target: Target, bodies: Conversations, at_once: int, seconds: float) -> Seen:
        """`at_once` clients that each send the next request when the last is answered, for `seconds`."""
        session, url = self._sessions[target.name], f"{target.url}/chat/completions"
        times: list[float] = []
        receipts = 0
        end = time.perf_counter() + seconds

        async def client() -> None:
            nonlocal receipts
            while (started := time.perf_counter()) < end:
                async with session.post(url, data=bodies.next()) as answer:
                    if answer.status != 200:
                        raise SystemExit(f"{target.name} answered {answer.status}: {(await answer.read())[:300]!r}")
                    if answer.content_type == "text/event-stream":
                        await answer.content.readany()
                        times.append(time.perf_counter() - started)
                        rest = await answer.read()
                        receipts += b'"agent_record_id"' in rest or b'"receipt"' in rest
                    else:
                        await answer.read()
                        times.append(time.perf_counter() - started)
                        receipts += "x-receipt" in answer.headers or "x-reef-agent-record-id" in answer.headers

        began = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(at_once)))
        lasted = time.perf_counter() - began
        return Seen(len(times) / lasted, sorted(times)[len(times) // 2] * 1e3, receipts, len(times))
