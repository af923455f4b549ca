"""The LoRAs in the worker: a bounded number, each kept while something uses it, the longest unused one making room.

They are loaded in the thread that prepares requests, so that no stream waits for a file, and freed between two steps.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from daemon.engine.llama.model import LoRAHandle
from daemon.errors import Busy

LIMIT = 8


class Loader(Protocol):
    """What loads a LoRA into the model, from any thread, and frees it while nothing computes."""

    def load_lora(self, path: Path) -> LoRAHandle: ...

    def free_lora(self, lora: LoRAHandle) -> None: ...


@dataclass(slots=True)
class _Entry:
    handle: LoRAHandle
    users: int = 0
    unload: bool = False  # asked for while something used it


class LoadedLoRAs:
    """Loaded LoRAs by id, which is the hash of their content. `acquire` and `release` bracket each use. Safe to use from several threads,
    but for `sweep`, which belongs to the thread that computes."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._entries: dict[str, _Entry] = {}  # the most recently used last
        self._dropped: list[tuple[str, LoRAHandle]] = []  # to be freed
        self._lock = threading.Lock()  # never held while a file is read
        self._loading = threading.Lock()

    @property
    def ids(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._entries)

    def acquire(self, lora_id: str, path: Path) -> None:
        """Count one more use; load it first if need be.

        Raises:
            DataError: llama.cpp refuses the file.
            Busy: as many as fit are all in use.
        """
        if self._use(lora_id):
            return
        with self._loading:
            if self._use(lora_id):  # loaded meanwhile
                return
            with self._lock:
                if len(self._entries) >= LIMIT:
                    self._make_room()
            handle = self._loader.load_lora(path)
            with self._lock:
                self._entries[lora_id] = _Entry(handle, users=1)

    def release(self, lora_id: str) -> None:
        """The end of a use."""
        with self._lock:
            entry = self._entries[lora_id]
            entry.users -= 1
            if entry.users == 0 and entry.unload:
                self._drop(lora_id)

    def unload(self, lora_id: str) -> None:
        """Let go of it now, or when its last use ends."""
        with self._lock:
            entry = self._entries.get(lora_id)
            if entry is not None:
                entry.unload = True
                if entry.users == 0:
                    self._drop(lora_id)

    def handle(self, lora_id: str | None) -> LoRAHandle | None:
        """Of one that is in use."""
        if lora_id is None:
            return None
        with self._lock:  # another use may be moving it to the end just now
            return self._entries[lora_id].handle

    def sweep(self) -> list[str]:
        """Free what was let go of. Returns the ids of those that are gone: what was computed under them is of no more use."""
        if not self._dropped:
            return []
        with self._lock:
            dropped, self._dropped = self._dropped, []
            gone = [lora_id for lora_id, _ in dropped if lora_id not in self._entries]
        for _, handle in dropped:
            self._loader.free_lora(handle)
        return gone

    def _use(self, lora_id: str) -> bool:
        with self._lock:
            entry = self._entries.pop(lora_id, None)
            if entry is None:
                return False
            entry.users += 1
            entry.unload = False
            self._entries[lora_id] = entry
            return True

    def _make_room(self) -> None:
        idle = next((name for name, entry in self._entries.items() if entry.users == 0), None)
        if idle is None:
            raise Busy(f"{LIMIT} LoRAs are in use at once, which is the most.", "Wait for a session to end.", retry_after_s=5)
        self._drop(idle)

    def _drop(self, lora_id: str) -> None:
        self._dropped.append((lora_id, self._entries.pop(lora_id).handle))
