"""Tasks from `tasks/<scenario>/*.yaml`: a prompt and a checker each.

A file holds a list of tasks, or `tasks:` with such a list:

    - id: cart-rounding
      prompt: "Write a commit message for this change: …"
      check: {pattern: '^fix(\\(.+\\))?: .{5,72}$'}

`check` is exactly one of `text` (the whole reply, surrounding white space aside), `pattern` (found in the trimmed reply),
`json_schema` (the reply is JSON that fits), or `command` (exit code 0; see `daemon.evolution.checkers`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from daemon.errors import DataError
from daemon.evolution.task_yaml import Located, load_yaml
from daemon.records import JSON, Message


class Split(StrEnum):
    """Who may look at a task."""

    HELD_IN = "held-in"  # the proposer may see it
    HELD_OUT = "held-out"  # only the gate
    SEALED = "sealed"  # scored once for an accepted candidate and shown; never used to choose


class Check(BaseModel):
    """How a reply is judged: exactly one of the first four."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str | None = None
    pattern: str | None = None
    json_schema: dict[str, JsonValue] | None = None
    command: str | tuple[str, ...] | None = None
    """A shell line, or a program and its arguments. The reply is its standard input and the file `reply.txt`."""
    workspace: Path | None = None
    """A folder beside the task's file that the command gets a fresh copy of."""
    timeout_s: float = Field(60, gt=0, le=3600)

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                re.compile(pattern)
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"the pattern is no regular expression: {error}") from error
        return pattern

    @field_validator("command")
    @classmethod
    def _names_a_program(cls, command: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        """An empty command would pass whatever the reply is."""
        program = command if isinstance(command, str) else command[0] if command else ""
        if command is not None and not program.strip():
            raise ValueError("the command is empty")
        if command is not None and any("\0" in part for part in command):
            raise ValueError("the command holds a NUL character")
        return command

    @field_validator("workspace")
    @classmethod
    def _is_path(cls, workspace: Path | None) -> Path | None:
        if workspace is not None and "\0" in str(workspace):
            raise ValueError("the workspace holds a NUL character")
        return workspace

    @field_validator("json_schema")
    @classmethod
    def _is_schema(cls, schema: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        if schema is not None:
            try:
                Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                raise ValueError(f"this is no JSON schema: {error.message}") from error
            if any(not reference.startswith("#") for reference in _references(schema)):
                raise ValueError("a $ref must stay inside the schema: nothing is fetched")
        return schema

    @model_validator(mode="after")
    def _one_kind(self) -> Check:
        given = [self.text, self.pattern, self.json_schema, self.command]
        if sum(value is not None for value in given) != 1:
            raise ValueError("give exactly one of text, pattern, json_schema, command")
        if self.workspace is not None and self.command is None:
            raise ValueError("workspace belongs to command")
        return self


class Task(BaseModel):
    """A prompt and how its reply is judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
    prompt: str | None = None
    """The user's message; or `messages`."""
    system: str | None = None
    messages: tuple[dict[str, JsonValue], ...] = ()
    check: Check
    split: Split | None = None
    """Absent: by the hash of the id, for good: half held-in, three tenths held-out, two tenths sealed."""
    max_tokens: int = Field(256, ge=1)
    temperature: float = Field(0.0, ge=0, le=2)

    @model_validator(mode="after")
    def _has_prompt(self) -> Task:
        if (self.prompt is None) == (not self.messages):
            raise ValueError("give either prompt or messages")
        if self.messages and self.system is not None:
            raise ValueError("system belongs to prompt; put it into messages")
        return self

    @property
    def conversation(self) -> tuple[Message, ...]:
        """The messages to answer."""
        if self.messages:
            return self.messages
        system: list[Message] = [{"role": "system", "content": self.system}] if self.system is not None else []
        return (*system, {"role": "user", "content": self.prompt})

    @property
    def last_user_text(self) -> str:
        """What a demonstration would have to contain to give this task away."""
        texts = [message.get("content") for message in self.conversation if message.get("role") == "user"]
        return texts[-1] if texts and isinstance(texts[-1], str) else ""

    @property
    def side(self) -> Split:
        return self.split or split_of(self.id)


@dataclass(frozen=True, slots=True)
class TaskSet:
    """All tasks of a scenario, by split; each in a fixed order."""

    held_in: tuple[Task, ...] = ()
    held_out: tuple[Task, ...] = ()
    sealed: tuple[Task, ...] = ()

    @classmethod
    def of(cls, tasks: Iterable[Task]) -> TaskSet:
        ordered = sorted(tasks, key=lambda task: task.id)
        return cls(*(tuple(task for task in ordered if task.side is split) for split in (Split.HELD_IN, Split.HELD_OUT, Split.SEALED)))

    def without(self, given_away: Callable[[Task], bool]) -> TaskSet:
        """The tasks of which `given_away` is not true."""
        return TaskSet(*(tuple(task for task in tasks if not given_away(task)) for tasks in (self.held_in, self.held_out, self.sealed)))

    def __len__(self) -> int:
        return len(self.held_in) + len(self.held_out) + len(self.sealed)


def split_of(task_id: str) -> Split:
    """Where a task without `split` falls: decided by its id alone, so it never moves."""
    place = int.from_bytes(hashlib.sha256(task_id.encode()).digest()[:4]) / 2**32
    return Split.HELD_IN if place < 0.5 else Split.HELD_OUT if place < 0.8 else Split.SEALED


def _references(schema: JSON) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def load_tasks(folder: Path) -> TaskSet:
    """Read every `*.yaml` in `folder`; a folder that is not there holds no tasks.

    Raises:
        DataError: a file is not valid, or an id is used twice; names file and line.
    """
    tasks: dict[str, tuple[Task, str]] = {}
    for path in sorted(folder.glob("*.yaml")) if folder.is_dir() else []:
        for entry in _entries(load_yaml(path), path):
            task = _task(entry, path)
            place = f"{path}:{entry.line}"
            if task.id in tasks:
                raise DataError(f"{place}: the task id {task.id!r} is used at {tasks[task.id][1]} already.", "Give each task its own id.")
            tasks[task.id] = (task, place)
    return TaskSet.of(task for task, _ in tasks.values())


def _entries(document: Located, path: Path) -> list[Located]:
    if document.value is None:
        return []
    if document.keys and set(document.keys) == {"tasks"}:
        document = document.keys["tasks"]
    if not isinstance(document.value, list):
        raise DataError(f"{path}:{document.line}: expected a list of tasks.", "Begin each task with `- id: …`.")
    return document.items


def _task(entry: Located, path: Path) -> Task:
    try:
        task = Task.model_validate(entry.value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = entry.at(first["loc"])
        name = ".".join(str(part) for part in first["loc"])
        message = "is not a known name" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
        raise DataError(
            f"{path}:{where.line}: {name + ': ' if name else ''}{message}.", "See docs/tasks.md for what a task holds."
        ) from error
    if task.check.workspace is None:
        return task
    workspace = (path.parent / task.check.workspace).resolve()
    if not workspace.is_dir():
        raise DataError(f"{path}:{entry.at(('check', 'workspace')).line}: there is no folder {workspace}.", "It is relative to this file.")
    return task.model_copy(update={"check": task.check.model_copy(update={"workspace": workspace})})
