"""A held candidate that has aged, put onto the release that serves now: harness and LoRA each by themselves.

Only drafted here: what comes out has to be evaluated again, for nobody has seen the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

from daemon.errors import Conflict
from daemon.harness_tree import HarnessTree
from daemon.versions.manifest import Operation
from daemon.versions.merge import Clash, merge_trees
from daemon.versions.release import LoRAFiles, Release

_MOST_SHOWN = 12
_TEXT_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Replay:
    """The state that a candidate's changes make of the head."""

    candidate: Release
    compared: Release  # what the candidate was made from and evaluated against
    head: Release
    tree: HarnessTree
    new_lora: LoRAFiles | None  # the candidate's; None: the head's goes on

    @property
    def sentence(self) -> str:
        names = self.candidate.id, self.compared.id, self.head.id
        return "{0} was evaluated against {1}; {2} serves now. Its changes fit {2} and are evaluated there.".format(*names)


def replay(candidate: Release, compared: Release, head: Release) -> Replay:
    """What the candidate changed in `compared`, put onto `head`.

    Raises:
        Conflict: both changed the same things, and each place is shown; or nothing is left to change; or the candidate's LoRA was trained
            for another base model.
    """
    tree, clashes = merge_trees(compared.tree, head.tree, candidate.tree)
    was, now, wanted = (one.manifest.lora_id for one in (compared, head, candidate))
    lora_clash = wanted not in (was, now) and now != was
    if clashes or lora_clash:
        lines = [_clash_line(clash, candidate.id, head.id) for clash in clashes[:_MOST_SHOWN]]
        if len(clashes) > _MOST_SHOWN:
            lines.append(f"and {len(clashes) - _MOST_SHOWN} more places")
        if lora_clash:
            lines.append(f"LoRA: {candidate.id} brings {_lora(candidate)}, {head.id} serves with {_lora(head)}")
        shown = "".join(f"\n  {line}" for line in lines)
        proposed = candidate.manifest.operation is Operation.PROPOSAL
        again = f"Give it up: `reef dismiss {candidate.id}`" if proposed else f"Run the recipe again on {head.id}: `reef evolve`"
        made = "proposed for" if proposed else "evaluated against"
        raise Conflict(
            f"{candidate.id} was {made} {compared.id}; {head.id} serves now, and both changed the same:{shown}",
            f"Nothing has changed. {again}. Or go back first: `reef rollback {compared.id}`.",
        )
    takes_lora = wanted not in (was, now)
    if takes_lora and candidate.lora is None:
        raise Conflict(
            f"{candidate.id} takes the LoRA of {compared.id} off, which {head.id} serves with.", "`reef rollback` to one without it."
        )
    if takes_lora and not candidate.manifest.base.same_weights(head.manifest.base):
        raise Conflict(
            f"{candidate.id} was made for another base model than {head.manifest.base.model}, which serves now.",
            candidate.manifest.base.put_back,
        )
    if not takes_lora and tree.content_id == head.tree.content_id:
        raise Conflict(f"What {candidate.id} changes is in {head.id} already; nothing would change.", "`reef diff` shows the two.")
    return Replay(candidate, compared, head, tree, candidate.lora if takes_lora else None)


def _clash_line(clash: Clash, candidate: str, head: str) -> str:
    where = f"{clash.path}, {clash.where}" if clash.where else clash.path
    return f"{where}: {candidate} {_said(clash.wanted)}, {head} {_said(clash.now)}"


def _said(text: str | None) -> str:
    if text is None:
        return "takes it out"
    line = " ".join(text.split())
    return f"says “{line if len(line) <= _TEXT_LENGTH else line[: _TEXT_LENGTH - 1] + '…'}”"


def _lora(release: Release) -> str:
    return f"the LoRA {release.manifest.lora_id[:12]}" if release.manifest.lora_id else "none"
