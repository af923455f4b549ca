"""What a release says of each change of its harness: why, by whom, from which sessions, and how it is taken back exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dulwich.objects import Blob
from dulwich.repo import Repo
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.errors import DataError
from daemon.evolution.provenance import behind_line, facts_of
from daemon.harness.mutations import Mutation, MutationKind, apply
from daemon.harness_tree import HarnessTree
from daemon.records import JSONObject
from daemon.versions.fsck import fsck
from daemon.versions.mutations import MutationFacts, inverse, read_mutations
from daemon.versions.operations import promote
from daemon.versions.release import Release
from daemon.versions.repository import Repository
from daemon.versions.tombstones import Words
from tests.evolution.run_bench import bench
from tests.evolution.test_consent import ask, ids
from tests.evolution.test_promoting import drafted, prefixed
from tests.versions.parts import draft

BASE = "/reef/scenarios/default"
RULES = "# Project\n\n## Testing\n\n- run the tests\n\n## Style\n\n- short lines\n"


def taken_back(repository: Repository, release: Release) -> HarnessTree:
    """The release's tree after its own inverse."""
    said = repository.reader.mutations(release.commit_id)
    assert said is not None
    objects = Repo(str(repository.path)).object_store
    steps = [
        Mutation(
            kind=MutationKind(one.kind), entry=one.entry, text=objects[one.blob.encode()].as_raw_string().decode() if one.blob else None
        )  # type: ignore[index]
        for one in said.inverse
    ]
    return apply(release.tree, steps)


async def test_a_candidate_says_it_and_so_does_what_it_became(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        repository = on.services.repository
        first = repository.head("default")
        assert first is not None
        run, _ = await on.run("Extends")
        shown = (await on.daemon.client.get(f"{BASE}/releases/{run.release_id}")).json()
        program = {"kind": "create", "entry": "extensions/own/index.ts", "reason": "it saw this twice", "sessions": [], "author": "own"}
        hints = {"kind": "create", "entry": "serving.json", "reason": "", "sessions": [], "author": "own"}
        assert shown["mutations"] == [program, hints]
        assert shown["inverse"] == [{"kind": "remove", "entry": one["entry"], "blob": None} for one in (program, hints)]
        _, told = await ask(on.daemon, str(run.release_id))
        assert (await ask(on.daemon, str(run.release_id), confirmed=ids(told)))[0] == 200
        head = repository.head("default")
        assert head is not None and taken_back(repository, head) == first.tree
        assert (await on.daemon.client.get(f"{BASE}/releases/head")).json()["mutations"] == [program, hints]
        found = (await on.daemon.client.get(f"{BASE}/why", params={"text": "export default 1"})).json()["releases"][0]
        assert (found["reason"], found["author"], found["evidence"]) == ("it saw this twice", "own", [])


async def test_one_that_is_put_onto_another_head_says_it_of_that(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        publisher, repository = on.services.publisher, on.services.repository
        candidate = HarnessTree({**prefixed("KNOWS").files, "AGENTS.md": "## Testing\n\n- run the tests\n"})
        proposed = Mutation(
            kind=MutationKind.CREATE, entry="AGENTS.md#testing", text="- run the tests", reason="it failed", sessions=("ses_1",)
        )
        said = facts_of(HarnessTree(), candidate, [proposed], reason="better", author="ace")
        held = await publisher.hold(drafted(on, harness=candidate, mutations=said))
        await publisher.publish(drafted(on, harness=HarnessTree({"AGENTS.md": "## Mine\n\n- be kind\n"})), "r1")
        status, told = await ask(on.daemon, held.id)
        assert status == 202, told
        run = await on.runner.wait(told["run"]["run_id"])  # type: ignore[index, call-overload, arg-type]
        assert run.verdict == "promoted", run
        head = repository.head("default")
        assert head is not None and taken_back(repository, head).files == {"AGENTS.md": "## Mine\n\n- be kind\n"}
        kept = repository.reader.mutations(head.commit_id)
        assert kept is not None and kept.against == "r3"
        assert [(one.entry, one.reason, one.sessions, one.author) for one in kept.mutations if one.path == "AGENTS.md"] in (
            [("AGENTS.md#testing", "it failed", ("ses_1",), "ace")],
            [("AGENTS.md", "it failed", ("ses_1",), "ace")],
        )
        edited: JSONObject = {"files": {"AGENTS.md": "- mine\n"}, "base_release_id": head.id, "note": "I like it so"}
        assert (await on.daemon.owner.post(f"{BASE}/harness", json=edited)).json()["published"] is True
        shown = (await on.daemon.client.get(f"{BASE}/releases/head")).json()["mutations"]
        assert {(one["reason"], one["author"]) for one in shown} == {("I like it so", "owner")}


def test_it_lies_in_the_commit_stays_with_a_rejected_one_and_is_forgotten_with_the_rest(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "versions.git")
    secret = "the user said swordfish"
    said = (MutationFacts.of("create", "AGENTS.md", f"because {secret} twice" + "x" * 3000, ["ses_1"] * 300, "ace"),)
    first = repository.publish(draft(HarnessTree({"AGENTS.md": "- a\n"}), mutations=said), None)
    lost = repository.reject(repository.prepare(draft(HarnessTree({"AGENTS.md": "- b\n"}), mutations=said)))
    held = repository.hold(repository.prepare(draft(HarnessTree({"AGENTS.md": "- c\n"}), mutations=said)))
    made = repository.publish(promote(repository, "default", held.id, who="owner"), first.id)
    for release in (first, lost, held, made):
        kept = repository.reader.mutations(release.commit_id)
        assert kept is not None and (len(kept.mutations[0].reason), len(kept.mutations[0].sessions)) == (2000, 100)
    assert taken_back(repository, made) == first.tree == HarnessTree({"AGENTS.md": "- a\n"})
    raw = Repo(str(repository.path))
    commit = raw[first.commit_id.encode()]
    text = raw[raw[commit.tree][b"mutations.json"][1]].as_raw_string()  # type: ignore[union-attr, index]
    assert json.loads(text)["mutations"][0]["author"] == "ace" and secret.encode() in text
    repository.bury(Words(texts=(secret,)))
    kept = repository.reader.mutations(first.commit_id)
    assert kept is not None and "swordfish" not in kept.to_json() and "[forgotten]" in kept.mutations[0].reason
    assert [one for one in fsck(repository) if one.severity.value == "error"] == []


def test_each_line_of_the_rules_leads_to_the_change_of_its_section() -> None:
    before = HarnessTree({"AGENTS.md": RULES})
    proposed = [
        Mutation(kind=MutationKind.UPDATE, entry="AGENTS.md#testing", text="- run make", reason="tests"),
        Mutation(kind=MutationKind.CREATE, entry="AGENTS.md#git", text="- small commits", reason="git"),
        Mutation(kind=MutationKind.REMOVE, entry="AGENTS.md#style", reason="style"),
    ]
    after = apply(before, proposed)
    said = facts_of(before, after, proposed, reason="", author="ace")
    found = [behind_line(said, after, "AGENTS.md", line) for line in ("- run make", "- small commits", "- short lines")]
    assert [one.reason if one else "" for one in found] == ["tests", "git", "style"]
    assert behind_line(said, after, "prompts/a.md", "x") is None


@pytest.mark.parametrize(
    "text", ["{", '{"mutations": 5}', '{"scenario": "s", "release_id": "r1", "against": null, "mutations": [], "inverse": [], "x": 1}']
)
def test_a_damaged_one_is_said_to_be_that(text: str) -> None:
    with pytest.raises(DataError, match=r"mutations\.json of r1 is damaged"):
        read_mutations(text.encode(), "r1")


_FILES = st.dictionaries(
    st.sampled_from(["AGENTS.md", "prompts/a.md", "commands/b.md"]), st.sampled_from(["a\n", "## A\n\nx\n", "é"]), max_size=3
)


@settings(max_examples=30, deadline=None)
@given(_FILES, _FILES, st.lists(st.sampled_from(["AGENTS.md", "AGENTS.md#a", "prompts/a.md"]), max_size=2))
def test_any_change_is_told_whole_and_taken_back_exactly(before: dict[str, str], after: dict[str, str], entries: list[str]) -> None:
    proposed = [Mutation(kind=MutationKind.CREATE, entry=entry, text="x", reason="r") for entry in entries]
    said = facts_of(HarnessTree(before), HarnessTree(after), proposed, reason="why", author="ace")
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert {one.path for one in said} == changed and all(one.author == "ace" for one in said)
    objects = {Blob.from_string(text.encode()).id.decode(): text for text in before.values()}
    back = inverse(HarnessTree(before), HarnessTree(after))
    steps = [Mutation(kind=MutationKind(one.kind), entry=one.entry, text=objects[one.blob] if one.blob else None) for one in back]
    assert apply(HarnessTree(after), steps).files == before
