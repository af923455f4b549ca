"""A scripted upstream in a thread of this process, and a home whose daemon asks it: quick to start, and it outlives every kill."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.reef_home import ReefHome
from tests.engine.upstream_server import UpstreamServer


@contextlib.contextmanager
def upstream() -> Iterator[UpstreamServer]:
    """Change its fields between requests."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = UpstreamServer()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def home_over(server: UpstreamServer, root: Path) -> ReefHome:
    engine = f"engine: {{kind: upstream, url: '{server.url}', model: scripted}}"
    return ReefHome(root, f"server: {{port: 0}}\nlearn: {{mode: manual}}\n{engine}\n")
