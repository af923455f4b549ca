"""Start and stop, in order. `run` is the whole life of a daemon."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path

from pydantic import JsonValue

from daemon.app import build_app
from daemon.backup.restore import finish as finish_restore
from daemon.engine.factory import make_engine
from daemon.evolution.schedule import Scheduler
from daemon.gateway.gateway import Gateway
from daemon.gateway.security import Names
from daemon.harness.noticing import watch_agents
from daemon.harness.served import tell_agents, tell_no_more
from daemon.instance import Instance
from daemon.listener import Server, bind, make_server, raise_file_limit
from daemon.observing import logs
from daemon.paths import Home
from daemon.recovery import look_at_chains
from daemon.retention import keep_forever
from daemon.services import Services
from daemon.serving.serving import sweep_forever
from daemon.startup import services_for
from daemon.watching import ConfigSource, check_recipes_forever, watch

_log = logging.getLogger("reef")
_DRAIN_S = 8.0


async def run(home: Home, serve_file: Path | None, env: Mapping[str, str], overrides: Mapping[str, JsonValue]) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ReefError: it cannot start; the sentence says why.
    """
    with Instance(home) as instance:
        finish_restore(home)
        logs.set_up(home)
        raise_file_limit()
        source = ConfigSource(home, serve_file, env, overrides, Path.cwd())
        loaded = source.load()
        server_config = loaded.config.server
        with contextlib.closing(bind(server_config)) as listener:
            port = int(listener.getsockname()[1])
            engine = make_engine(loaded.config.engine, home)
            async with services_for(home, loaded, engine, f"http://{_reachable(server_config.host)}:{port}") as services:
                names = Names(server_config.host, port, server_config.allowed_hosts, server_config.allowed_origins)
                gateway = Gateway(services)
                server = make_server(build_app(services, gateway, names))
                instance.announce(
                    {
                        "pid": os.getpid(),
                        "host": _reachable(server_config.host),
                        "port": port,
                        "version": services.version,
                        "started_at": services.started_at,
                    }
                )
                model = engine.model
                await asyncio.to_thread(tell_agents, home.agents, services.base_url, model.id, model.context_tokens)
                gc.freeze()  # what is here now stays: to look through it again and again would be a gap in every stream
                gc.set_threshold(10_000)  # requests in flight hold thousands of objects: each new one would have them looked through
                scheduler = Scheduler(services.runner, services.serving, services.reader, services.runs, lambda: services.config)
                tasks = [
                    background("Unloading LoRAs that nobody uses", sweep_forever(services.serving), services),
                    background("Watching the configuration", watch(source, services, names), services),
                    background("Watching the installed agents", watch_agents(services.agents, services.stopping), services),
                    background("Checking the recipes", check_recipes_forever(services), services),
                    background("Removing old sessions", keep_forever(services), services),
                    background("Looking at the releases", look_at_chains(services), services),
                    background("Starting runs by itself", scheduler.run_forever(), services),
                ]
                try:
                    await _serve(server, listener, services, gateway)
                finally:
                    tell_no_more(home.agents)
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                    await gateway.stop()


def background(what: str, work: Coroutine[None, None, None], services: Services) -> asyncio.Task[None]:
    """Run `work` beside the requests. If it fails the daemon goes on without it, and says so in its status."""

    def ended(task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        _log.error("%s failed", what, exc_info=error)
        services.warnings.append(f"{what} has stopped working: {error}. Start the daemon again: reef down, reef up.")

    task = asyncio.create_task(work)
    task.add_done_callback(ended)
    return task


async def _serve(server: Server, listener: socket.socket, services: Services, gateway: Gateway) -> None:
    """Answer requests until a signal comes; then let those in flight end, for a few seconds."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, services.stopping.set)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(services.stopping.wait())
    model = services.engine.model
    _log.info("Reef %s serves %s (%d tokens of context) at %s/v1", services.version, model.id, model.context_tokens, services.base_url)
    print(f"Reef serves {model.id} at {services.base_url}/v1 — stop with Ctrl-C.", file=sys.stderr, flush=True)
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    services.stopping.set()
    server.should_exit = True
    ending = asyncio.create_task(services.runner.stop())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(services.serving.activity.wait_free(), _DRAIN_S)
    await gateway.stop()
    await ending
    await running
    _log.info("Reef stopped")


def _reachable(host: str) -> str:
    """The address under which this machine reaches a listener on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
