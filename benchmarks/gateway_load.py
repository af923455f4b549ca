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
_TURNS = 10
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Target:
    """A server with the upstream's routes."""

    name: str
    url: str  # with /v1
    token: str = ""
    settle_url: str = ""  # answers once all that has a receipt is in the tables
    owner_token: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the clients saw of one server in one round."""

    requests_per_s: float
    p50_ms: float  # of a request; in streams, until the first piece
    receipts: int
    requests: int


class Conversation:
    """What one agent sends: a system text, what was said so far, and with each request one turn more; then another conversation."""

    def __init__(self, size_bytes: int, *, stream: bool) -> None:
        """`size_bytes`: about that much is said before the first request."""
        self._size_bytes = size_bytes
        self._head = b'{"model":"scripted","stream":' + (b"true" if stream else b"false") + b',"messages":['
        self._messages: list[bytes] = []
        self._left = 0

    def next(self) -> bytes:
        """The next request's body."""
        if not self._left:
            self._begin()
        else:
            self._messages += [_message("assistant", "done and done " * 24), _message("user", f"And now step {self._left}?")]
        self._left -= 1
        return self._head + b",".join(self._messages) + b"]}"

    def _begin(self) -> None:
        name = f"{next(_numbers)}-{time.monotonic_ns()}"
        chance = random.Random(name)

        def text(length: int) -> str:
            start = chance.randrange(len(_TEXT) - length)
            return _TEXT[start : start + length]

        self._messages = [_message("system", _SYSTEM), _message("user", f"Task {name}: go. {text(400)}")]
        while (said := sum(map(len, self._messages))) < self._size_bytes:
            role = "user" if len(self._messages) % 2 else "assistant"
            self._messages.append(_message(role, text(min(2000, self._size_bytes - said))))
        self._left = _TURNS


def _message(role: str, content: str) -> bytes:
    return json.dumps({"role": role, "content": content}, separators=(",", ":")).encode()


_TEXT = " ".join(random.Random(7).choices(_WORDS, k=200_000))
_SYSTEM = _TEXT[:2000]


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

    async def settle(self, target: Target) -> None:
        """Let the server finish what it has put off, so that it does not take its time from the next one's turn."""
        if target.settle_url:
            headers = {"authorization": f"Bearer {target.owner_token}"}
            async with self._sessions[target.name].get(target.settle_url, headers=headers) as answer:
                answer.raise_for_status()

    async def run(self, target: Target, size_bytes: int, at_once: int, seconds: float, *, stream: bool = False) -> Seen:
        """`at_once` clients that each send the next request when the last is answered, for `seconds`."""
        session, url = self._sessions[target.name], f"{target.url}/chat/completions"
        times: list[float] = []
        receipts = 0
        end = time.perf_counter() + seconds

        async def client() -> None:
            nonlocal receipts
            conversation = Conversation(size_bytes, stream=stream)
            while time.perf_counter() < end:
                body = conversation.next()
                started = time.perf_counter()
                async with session.post(url, data=body) as answer:
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
