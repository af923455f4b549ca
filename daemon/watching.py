"""Configuration while the daemon runs: a change that validates takes effect where it can, one that does not is refused with its line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue
from watchfiles import awatch

from daemon import json_text
from daemon.config import Config
from daemon.config_load import LoadedConfig, changed, load, restart_needed
from daemon.errors import ConfigError, ReefError
from daemon.gateway.security import Names
from daemon.paths import Home
from daemon.recipe_check import check_recipes
from daemon.records import JSON, JSONObject
from daemon.services import Services

_log = logging.getLogger("reef.config")
_AT_START = ("storage",)
"""Sections beside the listener's and the engine's that are read once."""
_AGAIN_S = 60.0
_LONGEST_VALUE = 200  # characters of it in the operation log
_LOOK_MS = 1000
"""How often to look at files that were replaced, or were not there when the watching began."""
_NICE = 19
"""Requests come before the check of a recipe."""


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where the settings of this daemon come from."""

    home: Home
    serve_file: Path | None
    env: Mapping[str, str]
    overrides: Mapping[str, JsonValue]
    cwd: Path

    def load(self) -> LoadedConfig:
        """Read all sources. Raises `ConfigError` with file and line."""
        return load(self.home, self.serve_file, self.env, self.overrides, self.cwd)


async def watch(source: ConfigSource, services: Services, names: Names) -> None:
    """Follow the configuration files until cancelled."""
    seen = _states(services.loaded)
    while not services.stopping.is_set():
        await _until_changed(services, seen)
        if (now := _states(services.loaded)) != seen:
            seen = now
            await reload(source, services, names)


async def _until_changed(services: Services, seen: list[tuple[int, int, int] | None]) -> None:
    """Watch the files themselves: their folder holds the experience database, which each request writes to."""
    files = [path for path in services.loaded.files if path.is_file()]
    if not files:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(services.stopping.wait(), _LOOK_MS / 1000)
        return
    stop = services.stopping
    async for _ in awatch(*files, stop_event=stop, recursive=False, step=200, rust_timeout=_LOOK_MS, yield_on_timeout=True):
        if _states(services.loaded) != seen:
            return


async def reload(source: ConfigSource, services: Services, names: Names) -> None:
    """Read the configuration again and take over what a running daemon can."""
    services.warnings[:] = [warning for warning in services.warnings if not warning.startswith("Configuration")]
    try:
        loaded = await asyncio.to_thread(source.load)
    except ConfigError as error:
        _warn(services, f"Configuration refused, the old one stands: {error}")
        return
    old, new = services.config, loaded.config
    needs_restart = _needs_restart(services.started_with, new)
    services.loaded = loaded
    services.serving.idle_s = new.learn.idle_s
    services.runner.configure(new, services.base_url, loaded.search_paths)
    services.reconfigured.set()
    names.allow(new.server.allowed_hosts, new.server.allowed_origins)
    if needs_restart:
        _warn(services, f"Configuration changed in {', '.join(needs_restart)}: restart the daemon for that: reef down, reef up.")
    taken = [name for name in changed(old, new) if name not in needs_restart]
    if taken:
        _log.info("Configuration changed: %s", ", ".join(taken))
        await _note(services, old, new, needs_restart)


async def check_recipes_forever(services: Services) -> None:
    """Look at the recipes now and after every change until cancelled; what would fail a run becomes a warning in the status."""
    told: list[str] = []
    while True:
        services.reconfigured.clear()
        try:
            problems = await check_recipes(services.loaded, nice=_NICE)
        except ReefError as error:
            _log.warning("The recipes could not be checked: %s", error)
            problems = []
        found = [str(problem) for problem in problems]
        services.warnings[:] = [*(warning for warning in services.warnings if warning not in told), *found]
        for sentence in found:
            if sentence not in told:
                _log.warning(sentence)
        told = found
        with contextlib.suppress(TimeoutError):  # what is wrong may be mended in the recipe's own file, which nobody watches
            await asyncio.wait_for(services.reconfigured.wait(), _AGAIN_S if told else None)


async def _note(services: Services, old: Config, new: Config, left_out: Sequence[str]) -> None:
    """A row a setting in the operation log of each scenario for which it changed, but for the sections `left_out`."""
    for scenario, head in list(services.serving.heads.items()):
        before, after = (_flat(config.for_scenario(scenario).model_dump(mode="json")) for config in (old, new))
        for name in sorted({*before, *after}):
            if before.get(name) == after.get(name) or name.partition(".")[0] in left_out:
                continue
            values = {"before": _short(before.get(name)), "after": _short(after.get(name))}
            detail: JSONObject = {"setting": name, **values}
            row = services.log.append(scenario, "settings", head.release_id, head.release_id, "settings file", detail)
            with contextlib.suppress(ReefError):  # it holds all the same
                await asyncio.wrap_future(row)


def _flat(section: Mapping[str, JsonValue], under: str = "") -> dict[str, JsonValue]:
    """`learn.mode` and the like; lists and what scenarios say stay whole."""
    found: dict[str, JsonValue] = {}
    for name, value in section.items():
        if isinstance(value, dict) and under + name != "scenarios":
            found |= _flat(value, f"{under}{name}.")
        elif under + name != "scenarios":
            found[under + name] = value
    return found


def _short(value: JsonValue) -> JSON:
    text = json_text.canonical(value)
    return value if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _needs_restart(started_with: Config, new: Config) -> list[str]:
    """The sections that a running daemon cannot take over; which hosts and origins may ask, it can."""
    asking = {"allowed_hosts": new.server.allowed_hosts, "allowed_origins": new.server.allowed_origins}
    before = started_with.model_copy(update={"server": started_with.server.model_copy(update=asking)})
    names = [*restart_needed(before, new), *(name for name in _AT_START if name in changed(before, new))]
    return [*names, "scenarios"] if _of_scenarios(before) != _of_scenarios(new) else names


def _of_scenarios(config: Config) -> dict[str, JsonValue]:
    """What scenarios say in the sections that are read once."""
    return {f"{name}.{section}": own[section] for name, own in config.scenarios.items() for section in _AT_START if section in own}


def _states(loaded: LoadedConfig) -> list[tuple[int, int, int] | None]:
    """What tells a changed file, for each of them; None: it is not there."""
    states: list[tuple[int, int, int] | None] = []
    for path in loaded.files:
        try:
            found = path.stat()
        except OSError:
            states.append(None)
        else:
            states.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return states


def _warn(services: Services, sentence: str) -> None:
    _log.warning(sentence)
    services.warnings.append(sentence)
