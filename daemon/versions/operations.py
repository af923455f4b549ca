"""Rollback, undo and promote: which content goes on top of the chain next. They draft; publishing is the caller's.

What serves now (base model, template, engine settings) is what the head's manifest pins: a daemon that starts with another
base model publishes a release for it first.
"""

from __future__ import annotations

from daemon.errors import Conflict
from daemon.versions.change import change_line
from daemon.versions.draft import content_id_of
from daemon.versions.kept import require_weights
from daemon.versions.manifest import Operation
from daemon.versions.names import named
from daemon.versions.release import Draft, Release, ReleaseState
from daemon.versions.replay import Replay, replay
from daemon.versions.repository import Repository


def rollback(repository: Repository, scenario: str, release_id: str, *, who: str, expected_head: str | None = None) -> Draft:
    """The content of an earlier release, as a new one. `expected_head` None: whatever stands.

    The caller advances with the head that it saw, so that a head that moves meanwhile is noticed.

    Raises:
        NotFound: no such release. Conflict: the head moved, nothing would change, or the base model is another.
    """
    head = _head(repository, scenario, expected_head)
    target = named(repository, scenario, release_id)
    if target.state is ReleaseState.HELD:
        raise Conflict(f"{target.id} is held and has never served.", f"`reef promote {target.id}` publishes it.")
    if target.state is not ReleaseState.PUBLISHED:
        raise Conflict(f"{target.id} is {target.state} and never served as such.", "`reef releases` lists what a rollback can reach.")
    return _restored(repository, head, target, Operation.ROLLBACK, who)


def undo(repository: Repository, scenario: str, *, who: str, expected_head: str | None = None) -> Draft:
    """Revert the last operation: the content that served before it. An undo is an operation too, so undoing it brings the content back.

    Raises:
        Conflict: the head moved, it is the first release, or the base model is another.
    """
    head = _head(repository, scenario, expected_head)
    if head.manifest.parent_release_id is None:
        raise Conflict(f"{head.id} is the first release of {scenario}; there is nothing to undo.", "`reef releases` shows the chain.")
    before = repository.release(scenario, head.manifest.parent_release_id)
    return _restored(repository, head, before, Operation.UNDO, who)


def promote(repository: Repository, scenario: str, release_id: str, *, who: str, expected_head: str | None = None) -> Draft:
    """Publish a held candidate, if what serves is still what it was evaluated against. What an agent proposed was never evaluated:
    its changes are put onto whatever serves.

    Raises:
        NotFound: no such candidate. Conflict: it is not held, has aged (see `aged`), or the base model is another.
    """
    head = _head(repository, scenario, expected_head)
    candidate = _held(repository, scenario, release_id)
    compared = _compared(repository, candidate)
    manifest, said = candidate.manifest, repository.reader.mutations(candidate.commit_id)
    tree, lora = candidate.tree, candidate.lora
    if not compared.serves_as(head) and manifest.operation is Operation.PROPOSAL:
        tree, lora = replay(candidate, compared, head).tree, head.lora
    elif not compared.serves_as(head):
        raise Conflict(
            f"{candidate.id} was evaluated against {compared.id}; {head.id} serves something else now.",
            f"Ask again, and it is evaluated on {head.id}: `reef promote {candidate.id}`.",
        )
    return Draft(
        scenario=scenario,
        operation=Operation.PROMOTE,
        base=head.manifest.base,
        harness=tree,
        lora=lora,
        change=manifest.change,
        engine=head.manifest.engine,
        recipe=manifest.recipe,
        seed=manifest.seed,
        run_id=manifest.run_id,
        records=manifest.records,
        restores=candidate.id,
        summary=manifest.evaluation,
        evaluation=candidate.evaluation,
        verdict=f"promoted by {who or 'a person'}; {_said(candidate)}" if manifest.verdict else "",
        who=who,
        promotes=candidate.commit_id,
        mutations=said.mutations if said is not None else (),
    )


def _said(candidate: Release) -> str:
    verdict = candidate.manifest.verdict
    if candidate.manifest.operation is Operation.PROPOSAL:  # no gate was asked
        return f"it was {verdict.removeprefix('held: ')}"
    return f"the gate had said: {verdict}"


def aged(repository: Repository, scenario: str, release_id: str, *, expected_head: str | None = None) -> Replay | None:
    """A held candidate's changes on what serves now, to be evaluated there; None: it has not aged, `promote` publishes it.

    Raises:
        NotFound: no such candidate. Conflict: it is not held, the head moved, or its changes do not fit what serves now.
    """
    head = _head(repository, scenario, expected_head)
    candidate = _held(repository, scenario, release_id)
    compared = _compared(repository, candidate)
    if compared.serves_as(head):
        return None
    found = replay(candidate, compared, head)
    return None if candidate.manifest.operation is Operation.PROPOSAL else found


def held_already(repository: Repository, draft: Draft) -> Release | None:
    """A held candidate with the draft's very content, evaluated against the content that the draft was evaluated against."""
    scenario, content_id = draft.scenario, content_id_of(draft)
    compared = repository.head(scenario) if draft.compared_with is None else repository.release(scenario, draft.compared_with)
    for held in repository.held(scenario):
        before = held.manifest.parent_release_id
        if compared is None or before is None or held.content_id != content_id:
            continue
        if repository.release(scenario, before).content_id == compared.content_id:  # any other has aged, and cannot be promoted
            return held
    return None


def _held(repository: Repository, scenario: str, release_id: str) -> Release:
    candidate = named(repository, scenario, release_id)
    if candidate.state is not ReleaseState.HELD:
        raise Conflict(f"{candidate.id} is {candidate.state}, not held.", "`reef releases` lists what is held.")
    return candidate


def _compared(repository: Repository, candidate: Release) -> Release:
    """The release that a candidate was made from and evaluated against."""
    compared = candidate.manifest.parent_release_id
    if compared is None:
        raise Conflict(f"{candidate.id} was compared with nothing.", "Run the recipe again: `reef evolve`.")
    return repository.release(candidate.manifest.scenario, compared)


def _restored(repository: Repository, head: Release, target: Release, operation: Operation, who: str) -> Draft:
    _check_base(target, head)
    if target.id == head.id:
        raise Conflict(f"{head.id} serves already; nothing would change.", "Name an earlier release.")
    if target.content_id == head.content_id:
        raise Conflict(
            f"{head.id} serves the very content of {target.id}; nothing would change.", "`reef diff` shows where releases differ."
        )
    require_weights(target, repository.weights, repository.tombstones)
    verb = "back to" if operation is Operation.ROLLBACK else f"undo {head.manifest.operation} {head.id}, back to"
    return Draft(
        scenario=head.manifest.scenario,
        operation=operation,
        base=head.manifest.base,
        harness=target.tree,
        lora=target.lora,
        change=f"{verb} {target.id}: {change_line(head, target.tree, target.lora)}",
        engine=head.manifest.engine,
        restores=target.id,
        who=who,
    )


def _check_base(target: Release, head: Release) -> None:
    wanted = target.manifest.base
    if not wanted.same_weights(head.manifest.base):
        raise Conflict(
            f"{target.id} was made for another base model than {head.manifest.base.model}, which serves now.",
            wanted.put_back,
        )


def _head(repository: Repository, scenario: str, expected_head: str | None) -> Release:
    head = repository.head(scenario)
    if head is None:
        raise Conflict(f"The scenario {scenario} has no release yet.", "Send it a request first.")
    if expected_head is not None and head.id != expected_head:
        hint = "Look at `reef releases` and ask again with the head that stands."
        raise Conflict(f"{head.id} is the head of {scenario} now; you saw {expected_head}.", hint, param="expected_head")
    return head
