"""Checkers: how good is this reply to this task?"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from daemon import sandbox
from daemon.errors import DataError, StorageError
from daemon.evolution.tasks import Check, Task
from daemon.records import JSONObject

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)
REPLY_FILE = "reply.txt"


@dataclass(frozen=True, slots=True)
class Judgement:
    score: float  # 0 … 1
    detail: str = ""  # why, where it failed


def judge(task: Task, reply: str, *, scratch: Path, hidden: Sequence[Path] = ()) -> Judgement:
    """Score one reply.

    Args:
        scratch: where working copies are made; each is removed again.
        hidden: what a command must not read: tasks, checkers, Reef's home.

    Raises:
        DataError: the task's schema refers to what is not in it. StorageError: its working copy cannot be made.
    """
    check = task.check
    trimmed = reply.strip()
    if check.text is not None:
        return _verdict(trimmed == check.text.strip(), "another text was expected")
    if check.pattern is not None:
        return _verdict(re.search(check.pattern, trimmed) is not None, "the pattern was not found")
    if check.json_schema is not None:
        return _against_schema(task.id, trimmed, check.json_schema)
    try:
        return _by_command(check, reply, scratch, hidden)
    except OSError as error:
        hint = "Free disk space, or put its workspace back."
        raise StorageError(f"Cannot make the working copy of task {task.id}: {error}.", hint) from error


def _verdict(passed: bool, detail: str) -> Judgement:
    return Judgement(1.0) if passed else Judgement(0.0, detail)


def _against_schema(task_id: str, reply: str, schema: JSONObject) -> Judgement:
    fenced = _FENCE.fullmatch(reply)
    try:
        value = json.loads(fenced[1] if fenced else reply)
    except (ValueError, RecursionError):
        return Judgement(0.0, "the reply is no JSON")
    # The empty registry keeps the validator from fetching anything.
    try:
        error = next(iter(Draft202012Validator(schema, registry=Registry()).iter_errors(value)), None)
    except Unresolvable as missing:
        raise DataError(f"The json_schema of task {task_id} refers to what is not in it: {missing.ref}.", "Mend the task.") from missing
    except RecursionError:
        return Judgement(0.0, "the reply, or its schema, is nested without end")
    return _verdict(error is None, error.message[:200] if error is not None else "")


def _by_command(check: Check, reply: str, scratch: Path, hidden: Sequence[Path]) -> Judgement:
    command = check.command
    arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command or ())
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="check-", dir=scratch) as made:
        folder = Path(made).resolve() / "work"
        if check.workspace is not None:
            shutil.copytree(check.workspace, folder, symlinks=True)
        else:
            folder.mkdir()
        (folder / REPLY_FILE).write_text(reply, encoding="utf-8")
        outcome = sandbox.run(arguments, folder, stdin=reply.encode(), limits=sandbox.Limits(seconds=check.timeout_s), hidden=hidden)
    if outcome.passed:
        return Judgement(1.0)
    if outcome.timed_out:
        return Judgement(0.0, f"the command took longer than {check.timeout_s:g} s")
    last = outcome.output.strip().splitlines()[-1:] or [""]
    return Judgement(0.0, f"exit code {outcome.exit_code}: {last[0][:200]}".rstrip(": "))
