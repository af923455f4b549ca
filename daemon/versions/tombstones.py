"""What was taken out of releases that stay: texts that were forgotten, and weights.

A file's object is replaced, under its own name, by one without the texts. Commits and trees keep their ids, so the chain stands.
`reef/tombstones.json` says which objects were replaced and what they are now, and which weights are gone on purpose, so that a check
can tell that from damage. A plain `git fsck` names these objects; `git log` and a clone of the head work.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.errors import DataError
from daemon.files import write_atomic
from daemon.serving_hints import ServingHints

FORGOTTEN = "[forgotten]"


class _Registry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    objects: dict[str, str] = Field(default_factory=dict)
    """Object id → the id that its content has now."""
    weights: dict[str, float] = Field(default_factory=dict)
    """sha256 of erased weights → when, in seconds since the epoch."""
    collected: dict[str, float] = Field(default_factory=dict)
    """The same of weights that were collected to make room."""


class Tombstones:
    """The registry. Writers hold the repository's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self, object_id: str) -> str | None:
        """What the object's content hashes to since it was replaced; None: it never was."""
        return self._read().objects.get(object_id)

    @property
    def objects(self) -> Mapping[str, str]:
        return self._read().objects

    @property
    def weights(self) -> Collection[str]:
        """sha256 of weights that were erased."""
        return self._read().weights.keys()

    @property
    def collected(self) -> Mapping[str, float]:
        """sha256 of weights that were given up for room → when, in seconds since the epoch."""
        return self._read().collected

    def add(self, objects: Mapping[str, str], weights: Collection[str] = (), collected: Collection[str] = ()) -> None:
        """Durable when it returns."""
        known, now = self._read(), time.time()
        merged = _Registry(
            objects={**known.objects, **objects},
            weights={**known.weights, **dict.fromkeys(weights, now)},
            collected={**known.collected, **dict.fromkeys(collected, now)},
        )
        write_atomic(self._path, merged.model_dump_json(indent=1) + "\n", 0o600)

    def _read(self) -> _Registry:
        try:
            return _Registry.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return _Registry()
        except (OSError, ValidationError) as error:
            raise DataError(
                f"{self._path} is damaged.", "Put a copy of it back, or remove it: `reef fsck` then names each tombstone."
            ) from error


@dataclass(frozen=True, slots=True)
class Words:
    """What is to be taken out."""

    receipts: frozenset[str] = frozenset()  # demonstrations from these go
    texts: tuple[str, ...] = ()  # these are replaced wherever they stand, the longest first
    _forms: list[tuple[str, str]] = field(default_factory=list, compare=False)

    def without(self, text: str) -> str:
        """A file's text without them; the same where it holds none."""
        if '"demonstrations"' in text:
            text = self._without_demonstrations(text)
        for plain, escaped in self._spelled():
            if plain in text:
                text = text.replace(plain, FORGOTTEN)
            if escaped != plain and escaped in text:
                text = text.replace(escaped, FORGOTTEN)
        return text

    def _without_demonstrations(self, text: str) -> str:
        try:
            hints = ServingHints.model_validate_json(text)
        except ValidationError:
            return text
        kept = tuple(shown for shown in hints.demonstrations if shown.source not in self.receipts)
        if len(kept) == len(hints.demonstrations):
            return text
        return hints.model_copy(update={"demonstrations": kept}).model_dump_json(indent=1) + "\n"

    def _spelled(self) -> list[tuple[str, str]]:
        """Each text as it is, and as a JSON file spells it."""
        if not self._forms:
            self._forms.extend((text, json.dumps(text, ensure_ascii=False)[1:-1]) for text in self.texts)
        return self._forms


def hash_of(kind: bytes, data: bytes) -> str:
    """The id that git gives to this content."""
    return hashlib.sha1(kind + b" " + str(len(data)).encode() + b"\0" + data, usedforsecurity=False).hexdigest()
