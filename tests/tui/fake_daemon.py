"""A daemon made of canned answers, for tests of the app that are about what is shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode

from daemon.errors import EngineError, NotFound, ReefError
from daemon.records import JSON, JSONObject
from reef_cli.tui.daemon import Change, Daemon

Answer = JSONObject | ReefError | Callable[[JSONObject], JSONObject]
"""What an answer may be: an object, an error to raise, or a function of the query or body."""

NOW = 1_900_000_000.0
"""What `time.time()` says in every test of the app: 17 March 2030, 17:46:40 UTC."""


class FakeDaemon(Daemon):
    """Answers by method and path; `answers` may be changed while the app runs.

    A key is "/reef/status" (GET), "POST /reef/…", or with a query "/reef/…/releases?limit=5", which goes before the one without.
    What has no answer is a 404 that names the path, so that a test says what is missing.
    """

    def __init__(self, answers: Mapping[str, Answer] | None = None) -> None:
        super().__init__()
        self.answers: dict[str, Answer] = {"/reef/status": status(), "/reef/engine": engine(), **nothing_yet(), **(answers or {})}
        self.asked: list[tuple[str, str, JSONObject]] = []
        """Every call: method, path, query or body."""
        self.streams: dict[str, list[JSONObject]] = {}
        """What `events(path)` yields, in order; it stays open after the last one until `end_stream`."""
        self.set_up = self.there = True
        self.started = 0
        self._lost: ReefError | None = None
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._more = asyncio.Event()
        self._ended: set[str] = set()

    def tell(self, kind: str, scenario: str = "default") -> None:
        """The live feed says that this changed."""
        self._changes.put_nowait(Change(kind, scenario))

    def lose(self) -> None:
        """From now on nothing answers."""
        self._lost = EngineError("The daemon does not answer.", "Start it again: reef up")
        self._changes.put_nowait(Change("lost", why=self._lost))

    def come_back(self) -> None:
        self._lost = None
        self._changes.put_nowait(Change("found"))

    def push(self, path: str, event: JSONObject) -> None:
        """One more event on the stream `path`."""
        self.streams.setdefault(path, []).append(event)
        self._wake()

    def end_stream(self, path: str) -> None:
        self._ended.add(path)
        self._wake()

    def bodies(self, method: str, path: str) -> list[JSONObject]:
        """What was sent there."""
        return [body for asked, at, body in self.asked if (asked, at) == (method, path)]

    async def get(self, path: str, query: Mapping[str, str | int | None] | None = None) -> JSONObject:
        return await self._answer("GET", path, {name: value for name, value in (query or {}).items() if value not in (None, "")})

    async def post(self, path: str, body: JSONObject, scenario: str = "", *, timeout_s: float = 60.0) -> JSONObject:
        return await self._answer("POST", path, body)

    async def save(self, path: str, query: Mapping[str, str | int | None], out: Path) -> JSONObject:
        """Writes the answer's `text`; the rest is the summary."""
        answer = await self.get(path, query)
        out.write_text(str(answer.get("text", "")), encoding="utf-8")  # noqa: ASYNC240 -- a few bytes
        return {name: value for name, value in answer.items() if name != "text"}

    async def delete(self, path: str) -> JSONObject:
        return await self._answer("DELETE", path, {})

    async def events(self, path: str, after: int = 0) -> AsyncIterator[JSONObject]:
        if self._lost is not None:
            raise self._lost
        self.asked.append(("EVENTS", path, {"after": after}))
        cursor = after
        while True:
            for event in self.streams.get(path, [])[cursor:]:
                cursor += 1
                yield {"cursor": cursor, **event}
            if path in self._ended:
                return
            more = self._more
            await more.wait()

    async def changes(self) -> AsyncIterator[Change]:
        yield Change("lost", why=self._lost) if self._lost is not None else Change("found")
        while True:
            yield await self._changes.get()

    async def is_set_up(self) -> bool:
        return self.set_up

    async def is_there(self) -> bool:
        return self.there

    async def start(self) -> None:
        self.started += 1
        self.come_back()

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    async def _answer(self, method: str, path: str, content: JSONObject) -> JSONObject:
        if self._lost is not None:
            raise self._lost
        self.asked.append((method, path, content))
        prefix = "" if method == "GET" else f"{method} "
        query = urlencode({name: str(value) for name, value in content.items()}) if method == "GET" and content else ""
        answer = self.answers.get(f"{prefix}{path}?{query}", self.answers.get(f"{prefix}{path}"))
        if answer is None:
            raise NotFound(f"The fake has no answer to {method} {path}.", "Give it one.")
        if isinstance(answer, ReefError):
            raise answer
        return answer(content) if callable(answer) else answer


def nothing_yet() -> dict[str, Answer]:
    """What the lists of scenarios without experience answer."""
    lists = ("releases", "sessions", "runs")
    return {f"/reef/scenarios/{name}/{kind}": {kind: [], "next": None} for name in ("default", "pi") for kind in lists}


def status(scenarios: list[JSON] | None = None, **more: JSON) -> JSONObject:
    """An answer of `/reef/status` with one scenario that has learned a little."""
    return {
        "version": "0.1.0",
        "pid": 4242,
        "base_url": "http://127.0.0.1:8900",
        "started_at": NOW - 3 * 3600,
        "engine": engine_facts(),
        "in_flight": 1,
        "learn": {"mode": "auto", "idle_s": 300, "recipe": "sft"},
        "scenarios": scenarios if scenarios is not None else [scenario(), scenario("pi", release_id="r3", held=[], sessions=12, run=None)],
        "disk": {"used_bytes": 412_000_000, "experience_bytes": 96_000_000, "free_bytes": 81_000_000_000},
        "warnings": [],
        **more,
    }


def scenario(name: str = "default", **more: JSON) -> JSONObject:
    """One scenario in it."""
    return {
        "name": name,
        "release_id": "r14",
        "lora": "lora-9f2c",
        "change": "+2 rules −1 skill",
        "published_at": NOW - 7200,
        "held": ["r15"],
        "sessions": 284,
        "records": 1903,
        "reports": 61,
        "last_sequence": 1964,
        "idle_s": 4.0,
        "recipe": "sft",
        "run": None,
        "last_failure": None,
        **more,
    }


def engine_facts(**more: JSON) -> JSONObject:
    """The part `engine` of it."""
    return {
        "kind": "llama",
        "state": "ready",
        "detail": "",
        "model": "SmolLM2-135M-Instruct",
        "context_tokens": 8192,
        "quantisation": "Q4_1",
        "architecture": "llama",
        "tool_format": "hermes",
        "size_bytes": 98_000_000,
        "active": 1,
        "queued": 0,
        "loras": ["lora-9f2c"],
        "restarts": 0,
        "cache": {"read_tokens": 41_000, "reused_tokens": 159_000, "reused_share": 0.795, "held_bytes": 0, "limit_bytes": 0, "misses": {}},
        **more,
    }


def engine(**more: JSON) -> JSONObject:
    """An answer of `/reef/engine`: two replies under way."""
    wave = [0, 0, 4, 18, 37, 42, 44, 41, 12, 0, 0, 0, 9, 31, 48, 52, 50, 47, 51, 46, 33, 6, 0, 0, 21, 44, 49, 47, 52, 50, 48, 42]
    misses = {"evicted": 2, "history rewritten": 5}
    cache = {
        "read_tokens": 41_200,
        "reused_tokens": 159_800,
        "reused_share": 0.795,
        "held_bytes": 214_000_000,
        "limit_bytes": 1_000_000_000,
    }
    return {
        "engine": engine_facts(active=2, queued=1, cache={**cache, "misses": misses}),
        "uptime_s": 10_800.0,
        "in_flight": 3,
        "streams": [
            {"scenario": "default", "session": "ses_9fb2c410", "release_id": "r14", "requests": 1},
            {"scenario": "pi", "session": "ses_77aa01", "release_id": "r3", "requests": 2},
        ],
        "rates": {"interval_s": 1.0, "generated": [float(value) for value in wave], "read": [float(7 * value % 190) for value in wave]},
        "last_misses": [
            {"at": NOW - 40, "scenario": "default", "session": "ses_9fb2c410", "reason": "history rewritten", "read_tokens": 3120},
            {"at": NOW - 900, "scenario": "pi", "session": "ses_77aa01", "reason": "evicted", "read_tokens": 6044},
        ],
        "learn": {"mode": "auto", "run_id": None},
        "processes": [
            {"what": "daemon", "pid": 4242, "rss_bytes": 148_000_000},
            {"what": "engine", "pid": 4243, "rss_bytes": 612_000_000},
            {"what": "trainer", "pid": 4250, "rss_bytes": 2_310_000_000},
        ],
        "memory_bytes": 16_600_000_000,
        **more,
    }
