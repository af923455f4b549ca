"""One task for codex without a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adapters.codex.events import read_events
from adapters.codex.settings import FOLDER_VARIABLE, SESSION_VARIABLE
from daemon.harness.adapter import HeadlessTask, TaskOutcome
from daemon.harness.headless import run_to_end, task_outcome
from daemon.harness.launcher import plain_folder
from daemon.harness.runtime import Program
from daemon.records import JSONObject

_OPTIONS: Final = ("exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write", "-")


def run_headless(program: Program, own: Mapping[str, str], task: HeadlessTask) -> TaskOutcome:
    """Play `task` in its working copy, in codex's own sandbox: it may write there and in temporary folders, and reach no network.

    The prompt goes in on stdin: as an argument it would be seen in the process list.

    Args:
        own: the variables that point codex at its folder.
    """
    told = {FOLDER_VARIABLE: plain_folder(task.working_copy), SESSION_VARIABLE: task.session}
    environment = {**program.environment(task.environment), **own, **told}
    ended = run_to_end([str(program.command), *_OPTIONS], task.working_copy, environment, task.prompt, task.timeout_s)
    outcome = read_events(ended.output.splitlines())
    details: JSONObject = {
        "agent_session": outcome.session,
        "input_tokens": outcome.input_tokens,
        "output_tokens": outcome.output_tokens,
    }
    return task_outcome(task, ended, outcome.reply, outcome.error, details)
