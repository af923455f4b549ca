"""The command line against a whole daemon in the test's process: its home is the one that the commands look for."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from daemon import __version__
from daemon.paths import Home
from reef_cli.error_handler import run
from reef_cli.main import build_app
from tests.cli.conftest import Result, looks_like_a_daemon
from tests.daemon.running import Running, running


@dataclass(slots=True)
class Live:
    daemon: Running
    capsys: pytest.CaptureFixture[str]

    async def reef(self, *arguments: str) -> Result:
        """`reef ARGUMENTS`, as where nobody looks on."""
        self.capsys.readouterr()
        code = await asyncio.to_thread(run, build_app, arguments)
        out, err = self.capsys.readouterr()
        return Result(code, out, err)


@contextlib.asynccontextmanager
async def live(home: Home, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Live]:
    process = looks_like_a_daemon()
    try:
        async with running(home.root) as daemon:
            facts = {"pid": process.pid, "host": "127.0.0.1", "port": daemon.port, "version": __version__, "started_at": 1.0}
            home.lock.write_text(json.dumps(facts))
            yield Live(daemon, capsys)
    finally:
        process.kill()
        process.wait()
