"""A real pi in its RPC mode: what a user would type goes in, and what pi would show comes out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from adapters.pi.runtime import NODE_VERSION
from tests.e2e.agents.installed import Agents

PATIENCE_S = 30.0
_LINE_BYTES = 1 << 24
Event = dict[str, Any]


class PiSession:
    """Read `notices` and `status`; type with `type`, which comes back once pi is idle again."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._came = asyncio.Condition()
        self._next = 0
        self.events: list[Event] = []
        self.errors = b""

    @property
    def notices(self) -> list[str]:
        return [event["message"] for event in self.events if event.get("method") == "notify"]

    @property
    def status(self) -> str:
        found = [
            event.get("statusText", "") for event in self.events if event.get("method") == "setStatus" and event["statusKey"] == "reef"
        ]
        return found[-1] if found else ""

    async def send(self, kind: str, **more: object) -> Event:
        """A command, and pi's response to it."""
        self._next += 1
        name = f"test-{self._next}"
        writer = self._process.stdin
        assert writer is not None
        writer.write(json.dumps({"id": name, "type": kind, **more}).encode() + b"\n")
        await writer.drain()
        return await self.event(lambda event: event.get("type") == "response" and event.get("id") == name)

    async def type(self, text: str) -> list[str]:
        """Type `text`; the notices that came until pi was idle."""
        before, settled = len(self.notices), self.count("agent_settled")
        answer = await self.send("prompt", message=text)
        assert answer["success"], answer
        if answer["data"]["disposition"] == "started":
            await self.until(lambda: self.count("agent_settled") > settled)
        return self.notices[before:]

    def count(self, kind: str) -> int:
        return sum(event.get("type") == kind for event in self.events)

    async def event(self, wanted: Callable[[Event], bool]) -> Event:
        """The first event, past or to come, that is `wanted`."""
        await self.until(lambda: any(wanted(event) for event in self.events))
        return next(event for event in self.events if wanted(event))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with self._came:
            try:
                await asyncio.wait_for(self._came.wait_for(holds), PATIENCE_S)
            except TimeoutError:
                shown = "\n".join(json.dumps(event)[:300] for event in self.events[-15:])
                raise AssertionError(f"it did not come:\n{shown}\n{self.errors.decode(errors='replace')[-2000:]}") from None

    async def read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        async for line in stream:
            async with self._came:
                self.events.append(json.loads(line))
                self._came.notify_all()

    async def read_errors(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        async for line in stream:
            self.errors += line


def environment(agents: Agents, agent: Path, home: Path) -> dict[str, str]:
    """A plain one: Node first on the path, homes of their own, no proxies."""
    node = agents.npm("node", NODE_VERSION).parent / "node" / "bin"
    path = f"{node}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "PI_CODING_AGENT_DIR": str(agent), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}


@contextlib.asynccontextmanager
async def pi_session(program: Path, cwd: Path, env: Mapping[str, str], *arguments: str) -> AsyncIterator[PiSession]:
    """Start pi; it is gone when the block ends."""
    process = await asyncio.create_subprocess_exec(
        *(str(program), "--mode", "rpc", *arguments),
        cwd=cwd,
        env=dict(env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=_LINE_BYTES,
    )
    session = PiSession(process)
    readers = [asyncio.create_task(session.read()), asyncio.create_task(session.read_errors())]
    try:
        yield session
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()
        for reader in readers:
            await reader
