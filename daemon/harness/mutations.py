"""Mutations: the only way in which learning changes a harness. All or none, on a snapshot, reversible.

An entry is a file (`skills/lint/SKILL.md`) or a section of the rules (`AGENTS.md#testing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, model_validator

from daemon.errors import Conflict, DataError
from daemon.harness.rules import parse_rules, put_section
from daemon.harness.validate import check_harness
from daemon.harness_tree import RULES_PATH, HarnessTree, check_path, entry_parts


class MutationKind(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    REMOVE = "remove"


class Mutation(BaseModel):
    """One change of one entry, with where it came from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: MutationKind
    entry: str
    text: str | None = None
    """The whole new text; absent for remove."""
    reason: str = ""
    sessions: tuple[str, ...] = ()
    """Sessions (or receipts) that are the evidence."""
    author: str = ""
    """A recipe, a person, an agent's session."""

    @model_validator(mode="after")
    def _text_fits_kind(self) -> Mutation:
        if (self.text is None) != (self.kind is MutationKind.REMOVE):
            raise ValueError("create and update need `text`, remove takes none")
        return self

    @property
    def path(self) -> str:
        return entry_parts(self.entry)[0]

    @property
    def section(self) -> str:
        """Id of the rules section; empty for a whole file."""
        return entry_parts(self.entry)[1]


def apply(tree: HarnessTree, mutations: Sequence[Mutation]) -> HarnessTree:
    """The tree with all mutations applied, in order, and valid; `tree` itself is never changed.

    Raises:
        Conflict: an entry to create stands, or one to update or remove does not. DataError: the outcome is invalid (file and line).
    """
    files = dict(tree.files)
    for mutation in mutations:
        check_path(mutation.path)
        if mutation.section:
            _apply_section(files, mutation)
            continue
        _require(mutation, mutation.path in files)
        if mutation.text is None:
            del files[mutation.path]
        else:
            files[mutation.path] = mutation.text
    changed = HarnessTree(files)
    check_harness(changed)
    return changed


def inverse(before: HarnessTree, after: HarnessTree, *, reason: str = "", author: str = "") -> tuple[Mutation, ...]:
    """Mutations of whole files that turn `after` back into `before`, exactly."""
    found: list[Mutation] = []
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old == new:
            continue
        kind = MutationKind.REMOVE if old is None else MutationKind.CREATE if new is None else MutationKind.UPDATE
        found.append(Mutation(kind=kind, entry=path, text=old, reason=reason, author=author))
    return tuple(found)


def _apply_section(files: dict[str, str], mutation: Mutation) -> None:
    rules = parse_rules(files.get(RULES_PATH, ""))
    _require(mutation, rules.find(mutation.section) is not None)
    changed = put_section(rules, mutation.section, mutation.text)
    if parse_rules(changed.text).find(mutation.section) is None and mutation.text is not None:
        raise DataError(f"{mutation.entry}: {mutation.section!r} is no section id.", "Use a-z, 0-9 and hyphens, at most 64.")
    if changed.text:
        files[RULES_PATH] = changed.text
    else:
        files.pop(RULES_PATH, None)


def _require(mutation: Mutation, stands: bool) -> None:
    if mutation.kind is MutationKind.CREATE and stands:
        raise Conflict(f"{mutation.entry} exists already.", "Update it instead.")
    if mutation.kind is not MutationKind.CREATE and not stands:
        raise Conflict(f"{mutation.entry} is not there to {mutation.kind}.", "It was removed since, or never was.")
