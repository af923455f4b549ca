"""One task for Claude Code without a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from adapters.claude.environment import HEADERS, task_headers
from adapters.claude.events import read_events
from daemon.harness.adapter import HeadlessTask, TaskOutcome
from daemon.harness.headless import run_to_end, task_outcome
from daemon.harness.runtime import Program
from daemon.records import JSONObject

_TOOLS: Final = "Bash,Edit,Write,NotebookEdit,WebFetch"
"""Run without asking, for there is nobody to ask. What the settings deny stays denied."""


def run_headless(program: Program, first: Sequence[str], own: Mapping[str, str], task: HeadlessTask) -> TaskOutcome:
    """Play `task` in its working copy. The prompt goes in on stdin: as an argument it would be seen in the process list.

    Args:
        first: the arguments that come before all others.
        own: the variables that point Claude Code at its folder and at Reef.
    """
    command = [str(program.command), *first, "--print", "--output-format", "stream-json", "--verbose", "--allowedTools", _TOOLS]
    headers = {HEADERS: task_headers(own[HEADERS], task.working_copy, task.session)}
    environment = {**program.environment(task.environment), **own, **headers}
    ended = run_to_end(command, task.working_copy, environment, task.prompt, task.timeout_s)
    outcome = read_events(ended.output.splitlines())
    details: JSONObject = {
        "response_ids": list(outcome.response_ids),
        "input_tokens": outcome.input_tokens,
        "output_tokens": outcome.output_tokens,
        "denied": list(outcome.denied),
    }
    return task_outcome(task, ended, outcome.reply, outcome.error, details)
