"""Operations in any order on a real repository, against a model of it: the chain only grows, what serves is what it should be, and a check
is clean whatever came before."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from daemon.errors import Conflict
from daemon.versions import collect, operations
from daemon.versions.change import change_line
from daemon.versions.fsck import Severity, fsck
from daemon.versions.kept import WeightState, weight_state
from daemon.versions.manifest import Operation
from daemon.versions.pins import pin, pinned, unpin
from daemon.versions.release import Draft, Release, ReleaseState
from daemon.versions.repository import Repository
from tests.versions.parts import draft, lora_folder, tree

_RULES = st.sets(st.sampled_from("abcd"), max_size=3)
_WEIGHTS = st.sampled_from(["", "", "one", "two"])
_ANY = st.integers(min_value=0, max_value=1000)


class Releases(RuleBasedStateMachine):
    """`served` is what should lie in the chain, oldest first; `held`, `rejected` and `pins` are ids."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.repository = Repository(self.folder / "versions.git")
        self.served: list[tuple[str, str]] = []
        self.held: set[str] = set()
        self.rejected: set[str] = set()
        self.pins: set[str] = set()
        self.weights = {name: lora_folder(self.folder / name, name) for name in ("one", "two")}

    def teardown(self) -> None:
        try:
            if self.served:
                self.check_all(Repository(self.repository.path))
        finally:
            shutil.rmtree(self.folder)

    def check_all(self, opened: Repository) -> None:
        assert [problem for problem in fsck(opened) if problem.severity is Severity.ERROR] == []
        assert [(one.id, one.content_id) for one in opened.chain("default")] == self.served[::-1]
        assert {one.id for one in opened.held("default")} == self.held
        assert {one.id for one in opened.rejected("default")} == self.rejected
        assert set(pinned(opened, "default")) == self.pins
        promoted = [one.id for release in opened.chain("default") for one in opened.promoted_by(release)]
        ids = [*(release_id for release_id, _ in self.served), *self.held, *self.rejected, *promoted]
        assert len(ids) == len(set(ids))
        for release in opened.chain("default"):
            if release.id in self.pins:
                assert weight_state(release, opened.weights, opened.tombstones) in (WeightState.NONE, WeightState.KEPT)

    @property
    def head(self) -> Release:
        found = self.repository.head("default")
        assert found is not None
        return found

    def drafted(self, rules: set[str], weights: str) -> Draft:
        harness = tree(rules="".join(f"- {rule}\n" for rule in sorted(rules))) if rules else tree()
        if weights:
            return draft(harness, self.weights[weights])
        return replace(draft(harness), lora=self.head.lora if self.served else None)

    def publish(self, drafted: Draft, content_id: str | None = None) -> Release:
        before = self.served[-1][0] if self.served else None
        published = self.repository.publish(drafted, before)
        if content_id is not None:
            assert published.content_id == content_id
        assert published.manifest.parent_release_id == before
        self.served.append((published.id, published.content_id))
        return published

    @initialize(weights=_WEIGHTS)
    def begin(self, weights: str) -> None:
        self.publish(self.drafted(set(), weights))

    @rule(rules=_RULES, weights=_WEIGHTS)
    def learn(self, rules: set[str], weights: str) -> None:
        self.publish(self.drafted(rules, weights))

    @rule(rules=_RULES, weights=_WEIGHTS, which=_ANY)
    def learn_too_late(self, rules: set[str], weights: str, which: int) -> None:
        seen = self.served[which % len(self.served)][0]
        if seen == self.head.id:
            return
        prepared = self.repository.prepare(self.drafted(rules, weights))
        with pytest.raises(Conflict, match=f"^{self.head.id} is the head"):
            self.repository.advance(prepared, seen)
        self.repository.discard(prepared)

    @rule(rules=_RULES, weights=_WEIGHTS)
    def hold(self, rules: set[str], weights: str) -> None:
        drafted = self.drafted(rules, weights)
        if operations.held_already(self.repository, drafted) is None:
            self.held.add(self.repository.hold(self.repository.prepare(drafted)).id)

    @rule(rules=_RULES, weights=_WEIGHTS)
    def reject(self, rules: set[str], weights: str) -> None:
        self.rejected.add(self.repository.reject(self.repository.prepare(self.drafted(rules, weights))).id)

    @precondition(lambda self: self.held)
    @rule(which=_ANY)
    def promote(self, which: int) -> None:
        candidate = self.repository.release("default", sorted(self.held)[which % len(self.held)])
        compared = self.repository.release("default", str(candidate.manifest.parent_release_id))
        aged = compared.content_id != self.head.content_id
        try:
            replay = operations.aged(self.repository, "default", candidate.id)
        except Conflict:
            assert aged
            return
        if replay is None:
            assert not aged
            self.publish(operations.promote(self.repository, "default", candidate.id, who="owner"), candidate.content_id)
        else:  # as after an evaluation that went well
            added = {line for line in candidate.tree.files.get("AGENTS.md", "").splitlines()}
            added -= {line for line in compared.tree.files.get("AGENTS.md", "").splitlines()}
            assert added <= set(replay.tree.files.get("AGENTS.md", "").splitlines())
            both = draft(replay.tree, operation=Operation.PROMOTE, restores=candidate.id, promotes=candidate.commit_id)
            self.publish(replace(both, lora=replay.new_lora or self.head.lora))
        self.held.remove(candidate.id)
        assert self.repository.release("default", candidate.id).state is ReleaseState.PROMOTED

    @rule(which=_ANY)
    def roll_back(self, which: int) -> None:
        release_id, content_id = self.served[which % len(self.served)]
        try:
            drafted = operations.rollback(self.repository, "default", release_id, who="owner", expected_head=self.head.id)
        except Conflict as refused:
            gone = weight_state(self.repository.release("default", release_id), self.repository.weights, self.repository.tombstones)
            assert content_id == self.head.content_id or gone is WeightState.COLLECTED, refused
            return
        self.publish(drafted, content_id)

    @rule()
    def undo(self) -> None:
        try:
            drafted = operations.undo(self.repository, "default", who="owner")
        except Conflict:
            before = self.repository.chain("default", 2)[-1]
            gone = weight_state(before, self.repository.weights, self.repository.tombstones) is WeightState.COLLECTED
            assert len(self.served) == 1 or self.served[-2][1] == self.head.content_id or gone
            return
        self.publish(drafted, self.served[-2][1])
        assert change_line(self.repository.chain("default", 2)[1], self.head.tree, self.head.lora) in self.head.manifest.change

    @rule(which=_ANY)
    def keep(self, which: int) -> None:
        release_id = self.served[which % len(self.served)][0]
        try:
            done = pin(self.repository, "default", release_id)
        except Conflict:
            return
        assert done == (release_id, release_id not in self.pins)
        self.pins.add(release_id)

    @rule(which=_ANY)
    def keep_no_more(self, which: int) -> None:
        release_id = self.served[which % len(self.served)][0]
        assert unpin(self.repository, "default", release_id) == (release_id, release_id in self.pins)
        self.pins.discard(release_id)

    @rule(newest=st.integers(min_value=1, max_value=3))
    def collect(self, newest: int) -> None:
        with self.repository.writing():
            collect.remove(self.repository, collect.find(self.repository, lambda _: newest, grace_s=0))

    @rule()
    def open_again(self) -> None:
        self.repository.close()
        self.repository = Repository(self.repository.path)

    @invariant()
    def the_chain_is_the_one_it_was_and_what_serves_is_whole(self) -> None:
        if not self.served:
            return
        assert (self.head.id, self.head.content_id) == self.served[-1]
        assert [one.id for one in self.repository.chain("default")] == [release_id for release_id, _ in self.served][::-1]
        assert weight_state(self.head, self.repository.weights, self.repository.tombstones) in (WeightState.NONE, WeightState.KEPT)


TestReleases = Releases.TestCase
TestReleases.settings = settings(
    max_examples=8, stateful_step_count=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
