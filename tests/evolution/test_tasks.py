"""Tasks from files: what a user wrote is read as meant, and a mistake is named with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.errors import DataError
from daemon.evolution.looks import Looks
from daemon.evolution.tasks import Split, Task, load_tasks, split_of

GOOD = """\
# two tasks
- id: one
  prompt: Write a commit message.
  check: {pattern: '^fix'}
  split: held-in
- id: two
  messages:
    - {role: system, content: Be brief.}
    - {role: user, content: 'Say hello.'}
  check: {text: hello}
  split: held-out
  max_tokens: 20
"""


def write(folder: Path, text: str, name: str = "tasks.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_tasks_are_read_into_their_splits(tmp_path: Path) -> None:
    tasks = load_tasks(write(tmp_path, GOOD))
    assert [task.id for task in tasks.held_in] == ["one"]
    assert tasks.held_in[0].conversation == ({"role": "user", "content": "Write a commit message."},)
    assert tasks.held_out[0].last_user_text == "Say hello."
    assert tasks.held_out[0].max_tokens == 20
    assert len(tasks) == 2


def test_a_list_may_stand_under_tasks(tmp_path: Path) -> None:
    assert len(load_tasks(write(tmp_path, "tasks:\n- {id: a, prompt: p, check: {text: x}}\n"))) == 1


def test_no_folder_and_empty_files_hold_no_tasks(tmp_path: Path) -> None:
    assert len(load_tasks(tmp_path / "none")) == 0
    assert len(load_tasks(write(tmp_path, "# nothing yet\n"))) == 0


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("- id: a\n  prompt: p\n  check:\n    patern: x\n", 4, "patern"),
        ("- id: a\n  prompt: p\n  check: {text: x, pattern: y}\n", 3, "exactly one"),
        ("- id: a\n  prompt: p\n  check: {pattern: '('}\n", 3, "regular expression"),
        ("- id: a\n  prompt: p\n  check: {text: x}\n- id: a\n  prompt: q\n  check: {text: x}\n", 4, "used at"),
        ("- id: a\n  check: {text: x}\n", 1, "prompt or messages"),
        ("- id: a\n  prompt: p\n  prompt: q\n  check: {text: x}\n", 3, "twice"),
        ("- id: a\n  prompt: [unclosed\n", 3, "no YAML"),
        ("- id: a\n  prompt: p\n  max_tokens: many\n  check: {text: x}\n", 3, "max_tokens"),
        ("- id: a\n  prompt: p\n  split: training\n  check: {text: x}\n", 3, "split"),
        ("- id: a\n  prompt: p\n  check: {command: 'true', workspace: nowhere}\n", 3, "no folder"),
        ("- id: a\n  prompt: p\n  check: {json_schema: {$ref: 'http://127.0.0.1/x'}}\n", 3, "nothing is fetched"),
        ("- id: a\n  prompt: p\n  check: {json_schema: {type: banana}}\n", 3, "no JSON schema"),
        ("hello: world\n", 1, "list of tasks"),
        ("- id: a\n  prompt: 2024-99-99\n  check: {text: x}\n", 2, "2024-99-99"),
        ('- id: a\n  prompt: "\\ud800"\n  check: {text: x}\n', 2, "no value"),
        ("- id: a\n  prompt: !mine p\n  check: {text: x}\n", 2, "'p'"),
        ("- id: a\n  prompt: !!timestamp p\n  check: {text: x}\n", 2, "'p'"),
        ("- id: a\n  max_tokens: " + "9" * 5000 + "\n  check: {text: x}\n", 2, "9…"),
        ("- id: a\n  ? [b]\n  : c\n", 2, "a word"),
        ("- " + "[" * 150 + "]" * 150, 1, "nested"),
        ("- id: a\n  prompt: p\n  check: {pattern: 'a{99999999999}'}\n", 3, "regular expression"),
        ("- id: a\n  prompt: p\n  check: {command: []}\n", 3, "empty"),
        ("- id: a\n  prompt: p\n  check: {command: ' '}\n", 3, "empty"),
        ('- id: a\n  prompt: p\n  check: {command: ["a\\0"]}\n', 3, "NUL"),
        ("- id: a\n  prompt: p\n  check: {command: 'true', workspace: \"\\0\"}\n", 3, "NUL"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(tmp_path: Path, text: str, line: int, part: str) -> None:
    with pytest.raises(DataError) as raised:
        load_tasks(write(tmp_path, text))
    assert f"tasks.yaml:{line}:" in raised.value.message
    assert part in raised.value.message
    assert raised.value.hint


def test_brackets_without_end_are_no_task(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tasks\.yaml: this is nested"):
        load_tasks(write(tmp_path, "[" * 20_000))


def test_the_same_id_in_two_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "- {id: a, prompt: p, check: {text: x}}\n", "one.yaml")
    write(tmp_path, "- {id: a, prompt: p, check: {text: x}}\n", "two.yaml")
    with pytest.raises(DataError, match=r"one\.yaml:1"):
        load_tasks(tmp_path)


def test_the_split_depends_on_the_id_alone_and_is_half_three_tenths_two_tenths() -> None:
    sides = [split_of(f"task-{number}") for number in range(4000)]
    assert sides == [split_of(f"task-{number}") for number in range(4000)]
    assert sides.count(Split.HELD_IN) / 4000 == pytest.approx(0.5, abs=0.03)
    assert sides.count(Split.HELD_OUT) / 4000 == pytest.approx(0.3, abs=0.03)


def task(name: str) -> Task:
    return Task.model_validate({"id": name, "prompt": name, "check": {"text": "x"}})


def test_looks_are_counted_for_sets_that_share_half_of_their_tasks(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "deep" / "looks.jsonl")
    old = [task(f"t{number}") for number in range(10)]
    assert looks.count(old) == 0
    looks.add("run1", old)
    assert looks.count(old) == 1
    one_new = [*old[:9], task("new")]
    assert looks.count(one_new) == 1  # one new task does not make the set fresh
    refreshed = [*old[:4], *(task(f"n{number}") for number in range(6))]
    assert looks.count(refreshed) == 0
    with (tmp_path / "deep" / "looks.jsonl").open("a") as stream:
        stream.write('{"run": "cut o')  # a crash in the middle of a line
    assert looks.count(old) == 1


def test_a_task_whose_checker_changed_is_another_task(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "looks.jsonl")
    looks.add("run1", [task("a")])
    changed = Task.model_validate({"id": "a", "prompt": "a", "check": {"text": "y"}})
    assert looks.count([changed]) == 0


def test_a_look_after_a_line_that_a_crash_cut_off_is_counted_too(tmp_path: Path) -> None:
    """A look that is lost makes the next level too mild."""
    path = tmp_path / "looks.jsonl"
    looks = Looks(path)
    tasks = [task(f"t{number}") for number in range(4)]
    looks.add("run1", tasks)
    with path.open("ab") as stream:
        stream.write(b'{"run": "run2", "ta')
    looks.add("run3", tasks)
    looks.add("run4", tasks)
    assert looks.count(tasks) == 3
