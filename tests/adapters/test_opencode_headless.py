"""A task for opencode: what its events say of the end, and what it is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.opencode.events import read_events
from adapters.opencode.headless import run_headless
from daemon.harness.adapter import HeadlessTask
from daemon.harness.runtime import Program
from daemon.records import JSONObject


def text(words: str) -> JSONObject:
    return {"type": "text", "sessionID": "ses_1", "part": {"text": words}}


def step(reason: str, tokens: int = 10) -> JSONObject:
    return {"type": "step_finish", "part": {"reason": reason, "tokens": {"input": tokens, "output": 2, "cache": {"read": 5}}}}


ERROR: JSONObject = {"type": "error", "error": {"name": "APIError", "data": {"message": "No such model"}}}


@pytest.mark.parametrize(
    ("events", "reply", "error"),
    [
        ([text("I look."), step("tool-calls"), text("Done."), step("stop")], "Done.", ""),
        ([text("I look."), step("tool-calls")], "I look.", "opencode stopped before the task was over."),
        ([], "", "opencode stopped before the task was over."),
        ([step("tool-calls"), ERROR], "", "No such model"),
        ([{"type": "error", "error": "odd"}], "", "The task failed."),
        ([text("All that fits"), step("length")], "All that fits", ""),
    ],
)
def test_the_last_text_is_the_answer_and_a_task_that_broke_off_says_why(events: list[JSONObject], reply: str, error: str) -> None:
    outcome = read_events(["a warning", "[1]", *map(json.dumps, events)])
    assert (outcome.reply, outcome.error) == (reply, error)


def test_tokens_of_all_steps_are_counted_those_of_the_cache_too() -> None:
    outcome = read_events(json.dumps(event) for event in [text("x"), step("tool-calls"), step("stop", 20)])
    assert (outcome.session, outcome.input_tokens, outcome.output_tokens) == ("ses_1", 40, 4)


def test_a_task_gets_its_prompt_as_it_stands_its_session_and_no_variable_of_ours(tmp_path: Path) -> None:
    program = Program(tmp_path / "opencode", "1.18.33", None)
    said = json.dumps(text("%s|%s|%s|%s"))
    program.command.write_text(
        f'#!/bin/sh\nprintf \'{said}\\n\' "$(cat)" "$REEF_SESSION" "$HOME" "$*"\necho \'{json.dumps(step("stop"))}\'\necho aside >&2\n'
    )
    program.command.chmod(0o755)
    task = HeadlessTask("@do -it", tmp_path, timeout_s=20, session="task-1", environment={"PATH": "/usr/bin:/bin"})
    outcome = run_headless(program, {}, task)
    assert (outcome.exit_code, outcome.text, outcome.log) == (0, "@do -it|task-1||run --format json", "aside\n")


def test_a_task_that_says_nothing_fails_though_opencode_ends_with_0(tmp_path: Path) -> None:
    program = Program(tmp_path / "opencode", "1.18.33", None)
    program.command.write_text("#!/bin/sh\ncat >/dev/null\n")
    program.command.chmod(0o755)
    outcome = run_headless(program, {}, HeadlessTask("x", tmp_path, timeout_s=20, environment={"PATH": "/usr/bin:/bin"}))
    assert outcome.exit_code == 1 and "before the task was over" in str(outcome.details["error"])
