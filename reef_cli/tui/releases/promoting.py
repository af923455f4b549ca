"""Follows the run that evaluates an aged candidate on what serves now, in one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from daemon.errors import EngineError
from reef_cli import following, output
from reef_cli.client import scenario_path
from reef_cli.tui.daemon import Daemon

if TYPE_CHECKING:
    from daemon.records import JSONObject

_TRIES = 30
_PAUSE_S = 1.0


async def follow(daemon: Daemon, scenario: str, run_id: str) -> AsyncIterator[str]:
    """What the run does, as it goes; the last one is its verdict.

    Raises:
        EngineError: the daemon is gone, and stays away.
    """
    path, cursor, left = scenario_path(scenario, "runs", run_id), 0, _TRIES
    while True:
        try:
            async for event in daemon.events(f"{path}/events", cursor):
                seen = event.get("cursor")
                cursor, left = seen if isinstance(seen, int) else cursor, _TRIES
                if words := _words(event):
                    yield words
            break
        except EngineError:
            left -= 1
            if not left:
                raise
            await asyncio.sleep(_PAUSE_S)
    answer = await daemon.get(path)
    yield following.verdict(output.part(answer, "run") or answer)


def _words(event: JSONObject) -> str:
    if event.get("type") == "task":
        return output.printable(
            f"{output.text(event.get('split'))} task {output.text(event.get('done'))} of {output.text(event.get('total'))}"
        )
    if event.get("type") == "phase":
        return output.printable(f"{output.text(event.get('phase'))} {output.text(event.get('detail'), '')}".rstrip())
    return ""
