"""A whole daemon in this process: real store, real repository, real HTTP on loopback; the engine is scripted unless one is given."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import JsonValue

from daemon.app import build_app
from daemon.config import ServerConfig
from daemon.config_load import load
from daemon.engine.base import Engine
from daemon.gateway.gateway import Gateway
from daemon.gateway.security import Names
from daemon.listener import bind, make_server
from daemon.paths import Home
from daemon.services import Services
from daemon.startup import services_for
from tests.engine.fake import ScriptedEngine

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""It is plain HTTP on loopback; a context for each client would take longer than most requests."""


@dataclass(slots=True)
class Running:
    """`client` carries the client's token, `owner` the owner's, `bare` none."""

    services: Services
    gateway: Gateway
    client: httpx.AsyncClient
    owner: httpx.AsyncClient
    bare: httpx.AsyncClient
    port: int

    @property
    def url(self) -> str:
        return self.services.base_url

    async def chat(self, text: str, **more: object) -> httpx.Response:
        body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "temperature": 0, **more}
        return await self.client.post("/v1/chat/completions", json=body)


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until `condition` holds; fail the test when it does not within `seconds`."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("what the test waits for did not happen")


def _client(url: str, token: str = "") -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, verify=_NO_TLS, timeout=20)


@contextlib.asynccontextmanager
async def running(root: Path, engine: Engine | None = None, settings: Mapping[str, JsonValue] | None = None) -> AsyncIterator[Running]:
    """Run a daemon with its home at `root` until the block ends."""
    home = Home(root)
    loaded = load(home, None, {}, {"learn.mode": "manual", **(settings or {})})
    with contextlib.closing(bind(ServerConfig(port=0))) as listener:
        port = int(listener.getsockname()[1])
        url = f"http://127.0.0.1:{port}"
        async with services_for(home, loaded, engine or ScriptedEngine(), url) as services:
            gateway = Gateway(services)
            names = Names("127.0.0.1", port, loaded.config.server.allowed_hosts, loaded.config.server.allowed_origins)
            server = make_server(build_app(services, gateway, names))
            task = asyncio.create_task(server.serve(sockets=[listener]))
            async with (
                _client(url, home.client_token.read_text().strip()) as client,
                _client(url, home.owner_token.read_text().strip()) as owner,
                _client(url) as bare,
            ):
                await until(lambda: server.started)
                try:
                    yield Running(services, gateway, client, owner, bare, port)
                finally:
                    services.stopping.set()
                    server.should_exit = True
                    await gateway.stop()
                    await task
