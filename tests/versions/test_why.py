"""`reef why`: a line leads to the release that brought it, whatever happened to it since."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from daemon.errors import BadRequest
from daemon.harness_tree import HarnessTree
from daemon.serving_hints import Demonstration, ServingHints
from daemon.versions.history import History
from daemon.versions.manifest import Operation
from daemon.versions.operations import rollback
from daemon.versions.repository import Repository
from daemon.versions.why import Answer, Match, why
from tests.versions import real_lora
from tests.versions.parts import draft, tree


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "versions.git")


def publish(repository: Repository, *trees: HarnessTree, **more: object) -> None:
    for one in trees:
        head = repository.head("default")
        repository.publish(draft(one, **more), head.id if head else None)


def ask(repository: Repository, text: str) -> Answer:
    return why(repository, History(repository), "default", text)


def told(answer: Answer) -> list[str]:
    return [f"{event.release.id} {event.kind} {event.path}:{event.number or ''} {event.line}".rstrip() for event in answer.events]


def test_a_line_is_followed_through_the_chain(repository: Repository) -> None:
    publish(
        repository,
        tree(),
        tree(rules="# Rules\n- Run the tests first.\n"),
        tree(rules="# Rules\n- Be brief.\n- Run the tests first.\n"),
        tree(rules="- Be brief.\n"),
        tree(rules="- Be brief.\n", x="Run the tests first."),
    )
    answer = ask(repository, "run  the TESTS first")
    assert answer.match is Match.EXACT and answer.serving
    assert told(answer) == [
        "r2 brought AGENTS.md:2 - Run the tests first.",
        "r4 removed AGENTS.md:3 - Run the tests first.",
        "r5 brought back skills/x/SKILL.md:1 Run the tests first.",
    ]
    repository.publish(rollback(repository, "default", "r4", who="owner"), "r5")
    assert not ask(repository, "Run the tests first.").serving
    repository.publish(rollback(repository, "default", "r2", who="owner"), "r6")
    assert told(ask(repository, "- Run the tests first."))[-2:] == [
        "r6 removed skills/x/SKILL.md:1 Run the tests first.",
        "r7 brought back AGENTS.md:2 - Run the tests first.",
    ]


def test_a_text_of_several_lines_has_to_be_there_whole(repository: Repository) -> None:
    publish(repository, tree(rules="- a one\n"), tree(rules="- a one\n- b two\n"))
    assert told(ask(repository, "a one\nb two")) == ["r2 brought AGENTS.md:1 - a one"]


def test_a_demonstration_leads_to_the_very_exchange_that_it_came_from(repository: Repository) -> None:
    shown = (
        Demonstration(prompt="What is it?", reply="A reef.", source="rec_1"),
        Demonstration(prompt="Say it\nin two lines", reply='He said "yes"', source="rec_2"),
    )
    publish(repository, tree(), HarnessTree({"serving.json": ServingHints(demonstrations=shown).model_dump_json(indent=1)}))
    answer = ask(repository, 'he said "yes"')
    assert told(answer) == ['r2 brought serving.json: He said "yes"'] and answer.events[0].source == "rec_2"
    assert ask(repository, "in two lines").events[0].source == "rec_2"


def test_a_line_that_is_remembered_only_nearly_is_found_and_said_to_be_another(repository: Repository) -> None:
    publish(repository, tree(), tree(rules="- Run the tests before each commit.\n- Be brief.\n"), tree(rules="- Be brief.\n"))
    answer = ask(repository, "Run tests before every commit")
    assert answer.match is Match.NEAR and not answer.serving
    assert told(answer) == [
        "r2 brought AGENTS.md:1 - Run the tests before each commit.",
        "r3 removed AGENTS.md:1 - Run the tests before each commit.",
    ]
    assert answer.nearest[0].line == "- Run the tests before each commit." and answer.nearest[0].likeness > 0.8


def test_what_no_release_says_is_answered_with_what_comes_nearest(repository: Repository) -> None:
    publish(repository, tree(), tree(rules="- Run the tests before each commit.\n"))
    answer = ask(repository, "commit the tests in the evening")
    assert answer.match is Match.NONE and answer.events == () and [one.release_id for one in answer.nearest] == ["r2"]
    assert ask(repository, "zyx wvu").nearest == ()
    with pytest.raises(BadRequest, match="Name some words"):
        ask(repository, " - \n * ")


def test_candidates_are_looked_at_where_the_chain_has_nothing(repository: Repository) -> None:
    publish(repository, tree(), tree(rules="- a one\n"))
    held = repository.hold(repository.prepare(draft(tree(rules="- a one\n- held only\n"))))
    lost = repository.reject(repository.prepare(draft(tree(rules="- lost only\n"))))
    assert [event.release.state for event in ask(repository, "held only").events] == [held.state]
    assert told(ask(repository, "lost only")) == [f"{lost.id} brought AGENTS.md:1 - lost only"]
    assert told(ask(repository, "a one")) == ["r2 brought AGENTS.md:1 - a one"]


def test_the_lora_is_asked_for_by_its_name(repository: Repository, tmp_path: Path) -> None:
    assert ask(repository, "lora").match is Match.NONE
    publish(repository, tree(rules="- the word lora\n"))
    publish(repository, tree(), lora=real_lora.write(tmp_path / "lora"))
    publish(repository, tree())
    repository.publish(rollback(repository, "default", "r2", who="owner"), "r3")
    answer = ask(repository, "LoRA")
    assert answer.match is Match.LORA and answer.serving
    assert [(event.release.id, str(event.kind)) for event in answer.events] == [
        ("r2", "brought"),
        ("r3", "removed"),
        ("r4", "brought back"),
    ]
    assert answer.events[0].line.startswith("LoRA r4") and answer.events[2].release.manifest.operation is Operation.ROLLBACK


def test_a_long_chain_is_asked_twice_in_less_time(repository: Repository) -> None:
    """What a commit points to is read once; a text that releases share is looked at once."""
    for number in range(40):
        publish(repository, tree(rules=f"- rule {number}\n", shared="Always the same.\n"))
    history, reads = History(repository), list[str]()
    blob, commit = repository.reader.blob, repository.reader.commit
    repository.reader.blob = lambda one: reads.append("blob") or blob(one)  # type: ignore[method-assign, func-returns-value]
    repository.reader.commit = lambda one: reads.append("commit") or commit(one)  # type: ignore[method-assign, func-returns-value]
    began = time.perf_counter()
    answer = why(repository, history, "default", "rule 17")
    assert [told(answer)[0], len(answer.events)] == ["r18 brought AGENTS.md:1 - rule 17", 2]
    assert reads.count("blob") == 41 and time.perf_counter() - began < 2
    reads.clear()
    why(repository, history, "default", "rule 18")
    assert reads.count("commit") == 0
