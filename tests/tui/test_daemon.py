"""The app's view of a real daemon: what changes, a loss, and the way back. And what the app costs to import."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from daemon.errors import EngineError
from reef_cli.tui.daemon import Change, Daemon
from tests.daemon.running import running
from tests.tui.test_releases_live import Local


async def next_of(changes: AsyncIterator[Change], kind: str) -> Change:
    async with asyncio.timeout(10):
        async for change in changes:
            if change.kind == kind:
                return change
    raise AssertionError("the feed ended")


async def test_a_lost_daemon_is_told_of_once_and_found_again_at_another_port(tmp_path: Path) -> None:
    port = [0]
    daemon = Daemon(lambda: Local(tmp_path, port[0]))
    changes = daemon.changes()
    async with running(tmp_path) as first:
        port[0] = first.port
        assert (await next_of(changes, "found")).why is None
        await first.chat("hello")
        assert (await next_of(changes, "records")).scenario == "default"
        assert (await daemon.get("/reef/status"))["in_flight"] == 0
    lost = await next_of(changes, "lost")
    assert isinstance(lost.why, EngineError) and lost.why.hint
    async with running(tmp_path) as second:
        port[0] = second.port
        await next_of(changes, "found")
        assert (await daemon.get("/reef/engine"))["streams"] == []
    await changes.aclose()  # type: ignore[attr-defined]


async def test_a_stream_that_nobody_reads_any_more_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.api.events.KEEP_ALIVE_S", 0.1)
    async with running(tmp_path) as on:
        daemon = Daemon(partial(Local, tmp_path, on.port))
        before = threading.active_count()
        stream = daemon.events("/reef/events")
        assert (await anext(stream))["type"] == "hello"
        await stream.aclose()  # type: ignore[attr-defined]
        # Nothing happens any more, but that the stream says now and then that it lives.
        for _ in range(100):
            if threading.active_count() <= before:
                break
            await asyncio.sleep(0.05)
        assert not [thread for thread in threading.enumerate() if thread.name == "reef-events"]


def test_the_app_imports_nothing_heavy() -> None:
    heavy = ["pydantic", "httpx", "aiohttp", "torch", "transformers", "llama_cpp", "numpy", "starlette", "dulwich", "psutil", "openai"]
    load = "import sys, reef_cli.tui.app, reef_cli.tui.tabs as t; [t.pane_of(tab.name) for tab in t.TABS]"
    code = f"{load}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
