"""From the mutations that somebody proposed to what a release says of itself: each change of its harness, why, and by whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from daemon.errors import ReefError
from daemon.harness.mutations import Mutation, MutationKind, apply
from daemon.harness.rules import parse_rules
from daemon.harness_tree import RULES_PATH, HarnessTree
from daemon.versions.mutations import MutationFacts, between
from daemon.versions.release import Release
from daemon.versions.repository import Repository


def facts_of(
    before: HarnessTree, after: HarnessTree, proposed: Sequence[Mutation], *, reason: str, author: str
) -> tuple[MutationFacts, ...]:
    """What leads from `before` to `after`: the proposed mutations where they make the file that is there, else the whole file.

    Args:
        reason: of what no mutation gives one for; `author` the same.
    """
    changed = between(before, after)
    own = {path: [one for one in proposed if one.path == path] for _, path in changed}
    try:
        made = apply(before, proposed).files
    except ReefError:  # they were made on another tree, and merged into this one
        made = {}
    found: list[MutationFacts] = []
    for kind, path in changed:
        if own[path] and made.get(path) == after.files.get(path):
            for one in own[path]:
                found.append(MutationFacts.of(one.kind.value, one.entry, one.reason or reason, one.sessions, one.author or author))
            continue
        reasons = dict.fromkeys(one.reason for one in own[path] if one.reason)
        sessions = dict.fromkeys(session for one in own[path] for session in one.sessions)
        by = next((one.author for one in own[path] if one.author), author)
        found.append(MutationFacts.of(kind, path, "; ".join(reasons) or reason, [*sessions], by))
    return tuple(found)


def mutations_of(repository: Repository, release: Release) -> tuple[Mutation, ...]:
    """What the release says of itself, with the texts of its tree. Raises DataError where that is damaged."""
    kept = repository.reader.mutations(release.commit_id)
    return tuple(_with_texts(kept.mutations, release.tree)) if kept is not None else ()


def behind_line(mutations: Sequence[MutationFacts], tree: HarnessTree, path: str, line: str) -> MutationFacts | None:
    """The mutation that brought a line of `path` into `tree`, or, where no section holds it any more, that took it out."""
    own = [one for one in mutations if one.path == path]
    for one in own:
        section = _section(tree, one.section) if one.section else None
        if section is not None and line.strip() in (each.strip() for each in section.split("\n")):
            return one
    whole = [one for one in own if not one.section]
    removing = [one for one in own if one.kind == "remove"]
    return next(iter([*whole, *removing, *own]), None)


def _with_texts(facts: Iterable[MutationFacts], tree: HarnessTree) -> Iterable[Mutation]:
    for one in facts:
        text = _section(tree, one.section) if one.section else tree.files.get(one.path)
        kind = MutationKind(one.kind)
        if (text is None) == (kind is MutationKind.REMOVE):
            yield Mutation(kind=kind, entry=one.entry, text=text, reason=one.reason, sessions=one.sessions, author=one.author)


def _section(tree: HarnessTree, name: str) -> str | None:
    found = parse_rules(tree.files.get(RULES_PATH, "")).find(name)
    return found.text if found is not None else None
