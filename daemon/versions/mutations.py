"""`mutations.json` of a release: what changed in its harness, entry by entry, why and by whom, and how to take it back exactly.

Texts are not repeated here: the new ones lie in the release's own tree, the old ones in the files that the inverse names by their git
objects. So a text that is forgotten is gone from here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from dulwich.objects import Blob
from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.errors import DataError
from daemon.harness_tree import HarnessTree, entry_parts
from daemon.records import JSON
from daemon.versions.manifest import plain_json

Kind = Literal["create", "update", "remove"]
_LONGEST_REASON: Final = 2000
_MOST_SESSIONS: Final = 100


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MutationFacts(_Frozen):
    """One change of one entry."""

    kind: Kind
    entry: str
    """A file (`skills/lint/SKILL.md`) or a section of the rules (`AGENTS.md#testing`)."""
    reason: str = ""
    sessions: tuple[str, ...] = ()
    """Sessions (or receipts) that are the evidence."""
    author: str = ""
    """A recipe, a person, an agent's session."""

    @classmethod
    def of(cls, kind: Kind, entry: str, reason: str, sessions: Sequence[str], author: str) -> MutationFacts:
        """Cut to what a release keeps."""
        return cls(kind=kind, entry=entry, reason=reason[:_LONGEST_REASON], sessions=tuple(sessions)[:_MOST_SESSIONS], author=author)

    @property
    def path(self) -> str:
        return entry_parts(self.entry)[0]

    @property
    def section(self) -> str:
        return entry_parts(self.entry)[1]


class Inverse(_Frozen):
    """One step back: the whole file becomes what the git object `blob` holds; without one it goes."""

    kind: Kind
    entry: str
    blob: str | None = None


class Mutations(_Frozen):
    """The file. `inverse` leads from the release's harness to that of `against`."""

    scenario: str
    release_id: str
    against: str | None
    mutations: tuple[MutationFacts, ...]
    inverse: tuple[Inverse, ...]

    def to_json(self) -> str:
        dumped: JSON = self.model_dump(mode="json")
        return plain_json(dumped, lone_surrogates="replace")


def between(before: HarnessTree, after: HarnessTree) -> list[tuple[Kind, str]]:
    """What leads from one tree to the other, by whole files."""
    found: list[tuple[Kind, str]] = []
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old != new:
            found.append(("create" if old is None else "remove" if new is None else "update", path))
    return found


def inverse(before: HarnessTree, after: HarnessTree) -> tuple[Inverse, ...]:
    """What takes `after` back to `before`, exactly."""
    return tuple(
        Inverse(kind=kind, entry=path, blob=None if kind == "remove" else Blob.from_string(before.files[path].encode()).id.decode())
        for kind, path in between(after, before)
    )


def read_mutations(text: bytes, where: str) -> Mutations:
    """Raises DataError; `where` names it in the message."""
    try:
        return Mutations.model_validate_json(text)
    except ValidationError as error:
        raise DataError(f"The mutations.json of {where} is damaged.", "Run `reef fsck`.") from error
