"""The LoRAs in the worker: a bounded number, each kept while something uses it, the longest unused one making room."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from daemon.engine.llama.model import LoRAHandle
from daemon.errors import EngineError, Unsupported

LIMIT = 8


class Loader(Protocol):
    """What loads a LoRA into the model."""

    def load_lora(self, path: Path) -> LoRAHandle: ...

    def free_lora(self, lora: LoRAHandle) -> None: ...


@dataclass(slots=True)
class _Entry:
    handle: LoRAHandle
    users: int = 0
    unload: bool = False  # asked for while something used it


class LoadedLoRAs:
    """Loaded LoRAs by id. `acquire` and `release` bracket each use; only the scheduler's thread calls this."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._entries: dict[str, _Entry] = {}  # the most recently used last

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def load(self, lora_id: str, path: Path) -> None:
        """Make it ready; nothing happens if it is.

        Raises:
            DataError: llama.cpp refuses the file.
            Unsupported: as many as fit are all in use.
        """
        if lora_id in self._entries:
            self._entries[lora_id].unload = False
            return
        if len(self._entries) >= LIMIT:
            idle = next((name for name, entry in self._entries.items() if entry.users == 0), None)
            if idle is None:
                raise Unsupported(f"{LIMIT} LoRAs are in use at once, which is the most.", "Wait for a session to end.")
            self._free(idle)
        self._entries[lora_id] = _Entry(self._loader.load_lora(path))

    def unload(self, lora_id: str) -> None:
        """Free it now, or when its last use ends."""
        entry = self._entries.get(lora_id)
        if entry is None:
            return
        entry.unload = True
        if entry.users == 0:
            self._free(lora_id)

    def acquire(self, lora_id: str) -> None:
        entry = self._entries.pop(lora_id, None)
        if entry is None:
            raise EngineError("The LoRA is not loaded.", "Send the request again.")
        entry.users += 1
        self._entries[lora_id] = entry

    def release(self, lora_id: str) -> None:
        entry = self._entries[lora_id]
        entry.users -= 1
        if entry.users == 0 and entry.unload:
            self._free(lora_id)

    def handle(self, lora_id: str | None) -> LoRAHandle | None:
        return None if lora_id is None else self._entries[lora_id].handle

    def _free(self, lora_id: str) -> None:
        self._loader.free_lora(self._entries.pop(lora_id).handle)
