"""Whether somebody changed an installed agent's harness by hand: watched while the daemon runs, and read once at its start.

Only the folders where a harness lies are watched, each by itself: beside them an agent keeps its conversations and what it downloads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from watchfiles import awatch

from daemon.errors import Conflict, ReefError
from daemon.harness.adapter import Adapter, InstallContext, find_adapter
from daemon.harness.edits import find_edits
from daemon.harness.installed import MANIFEST, TREE, Binding, read_manifest
from daemon.harness.installing import AGENT, JOURNAL, LEFT_ALONE, held

_MOST_AGENTS: Final = 50
_MOST_FOLDERS: Final = 2000
_MOST_FILES: Final = 10_000
_SHOWN: Final = 5
_LOOK_MS: Final = 5000
"""How often to look where nothing was reported: at folders that came since, or cannot be watched."""
_log = logging.getLogger("reef.adapters")

_State = tuple[tuple[str, int, int, int], ...]
"""Path, time of change, size and inode of every file that matters."""


@dataclass(frozen=True, slots=True)
class AgentState:
    """An installed agent, as its folder says."""

    name: str
    version: str
    release_id: str
    binding: Binding | None  # None: it cannot be read
    changed: tuple[str, ...] = ()  # by hand: `AGENTS.md (changed)`
    error: str = ""  # why that cannot be told

    @property
    def sentence(self) -> str:
        """What a person should know; empty: nothing."""
        if self.error:
            return f"{self.name}: {self.error}"
        if not self.changed:
            return ""
        more = f" and {len(self.changed) - _SHOWN} more" if len(self.changed) > _SHOWN else ""
        return f"{self.name}: changed by hand: {', '.join(self.changed[:_SHOWN])}{more}; reef update {self.name} keeps it"


class InstalledAgents:
    """The agents below `folder`. `look` may be called from any thread; what did not change is not read again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[_State, AgentState]] = {}
        self._adapters: dict[str, tuple[_State, Adapter | str]] = {}
        self.changes = 0
        """Counts up whenever another state was found."""

    def look(self) -> list[AgentState]:
        """Each installed agent as it is now, by name."""
        with self._lock:
            before = {name: state for name, (_, state) in self._seen.items()}
            self._seen = {name: self._look_at(name) for name in self._names()}
            now = {name: state for name, (_, state) in self._seen.items()}
            if now != before:
                self.changes += 1
                for name, state in now.items():
                    if state.sentence and state != before.get(name):
                        _log.info("%s", state.sentence)
            return list(now.values())

    def folders(self) -> list[Path]:
        """What is to be watched, each without what lies below; blocks. Empty: there is no folder of agents yet."""
        found = [self._folder] if self._folder.is_dir() else []
        for name in self._names():
            home = self._folder / name
            found += [path for path in (home, home / AGENT) if path.is_dir()]
            for root in _roots(home / AGENT, self._adapter(name)):
                found += [Path(folder) for folder, _, _ in _walk(root)]
        return sorted(set(found))[:_MOST_FOLDERS]

    def _names(self) -> list[str]:
        try:
            found = sorted(entry.name for entry in os.scandir(self._folder) if (Path(entry.path) / MANIFEST).is_file())
        except OSError:
            return []
        return found[:_MOST_AGENTS]

    def _look_at(self, name: str) -> tuple[_State, AgentState]:
        home, last = self._folder / name, self._seen.get(name)
        if (home / JOURNAL).exists() and not _finished(home) and last is not None:
            return last
        adapter = self._adapter(name)
        state = tuple(_state(home, adapter))
        if last is not None and last[0] == state:
            return last
        found = _read(home, name, adapter)
        if last is not None and (home / JOURNAL).exists():
            return last
        return state, found

    def _adapter(self, name: str) -> Adapter | str:
        """Or why there is none, until the agent is installed anew: to look for an adapter takes long."""
        installed = tuple(_facts([self._folder / name / MANIFEST]))
        known = self._adapters.get(name)
        if known is None or known[0] != installed:
            known = self._adapters[name] = (installed, _load(name))
        return known[1]


async def watch_agents(agents: InstalledAgents, stopping: asyncio.Event) -> None:
    """Keep `agents.look()` current until `stopping` is set."""
    while not stopping.is_set():
        await asyncio.to_thread(agents.look)
        folders = await asyncio.to_thread(agents.folders)
        try:
            await _until_others(agents, folders, stopping)
        except (OSError, RuntimeError) as error:  # a folder that went meanwhile, or the system's limit of watches
            _log.debug("Agents are looked at every %d s: %s", _LOOK_MS // 1000, error)
            await _pause(stopping)


async def _until_others(agents: InstalledAgents, folders: list[Path], stopping: asyncio.Event) -> None:
    """Look after every change, until other folders are to be watched."""
    if not folders:
        await _pause(stopping)
        return
    changes = awatch(*folders, stop_event=stopping, recursive=False, step=100, debounce=500, rust_timeout=_LOOK_MS, yield_on_timeout=True)
    async for _ in changes:
        await asyncio.to_thread(agents.look)
        if await asyncio.to_thread(agents.folders) != folders:
            return


async def _pause(stopping: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), _LOOK_MS / 1000)


def _finished(home: Path) -> bool:
    """Finish an installation that was interrupted; False: one is under way."""
    try:
        with held(home):
            return True
    except Conflict:
        return False
    except ReefError as error:
        _log.warning("An interrupted installation cannot be finished: %s", error)
        return True


def _load(name: str) -> Adapter | str:
    try:
        return find_adapter(name)
    except ReefError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 -- an adapter may be anybody's
        return _fails(error)


def _fails(error: Exception) -> str:
    return f"Its adapter fails: {type(error).__name__}: {error}. Tell its author."


def _read(home: Path, name: str, adapter: Adapter | str) -> AgentState:
    version, release, binding, error = "", "", None, ""
    changed: list[str] = []
    try:
        manifest = read_manifest(home)
        if manifest is not None:
            version, release, binding = manifest.version, manifest.release_id, manifest.binding
        if isinstance(adapter, Adapter):
            changed = find_edits(adapter, InstallContext(home, "", Path(), "", 0, 0, name)).changed
        else:
            error = adapter
    except ReefError as failure:
        error = str(failure)
    except Exception as failure:  # noqa: BLE001 -- an adapter may be anybody's
        error = _fails(failure)
    return AgentState(name, version, release, binding, tuple(changed), error)


def _state(home: Path, adapter: Adapter | str) -> Iterator[tuple[str, int, int, int]]:
    agent = home / AGENT
    named = [agent / name for name in (adapter.reads if isinstance(adapter, Adapter) else ()) if not name.endswith("/")]
    yield from _facts([home / MANIFEST, home / TREE, *named])
    left = _MOST_FILES
    for root in _roots(agent, adapter):
        for folder, _, names in _walk(root):
            left -= len(names)
            if left < 0:
                return
            yield from _facts([Path(folder), *(Path(folder, name) for name in sorted(names))])


def _facts(paths: list[Path]) -> Iterator[tuple[str, int, int, int]]:
    for path in paths:
        with contextlib.suppress(OSError):
            found = path.lstat()
            yield str(path), found.st_mtime_ns, found.st_size, found.st_ino


def _roots(agent: Path, adapter: Adapter | str) -> list[Path]:
    """The folders that hold parts of a harness. No link is followed."""
    roots = [agent / name.rstrip("/") for name in (adapter.reads if isinstance(adapter, Adapter) else ()) if name.endswith("/")]
    return [root for root in roots if root.is_dir() and not root.is_symlink()]


def _walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(one for one in folders if one not in LEFT_ALONE)
        yield folder, folders, names
