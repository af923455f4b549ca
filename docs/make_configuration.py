"""Writes `docs/configuration.md` from the settings' own models: `python docs/make_configuration.py`.

A test keeps the two equal.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from daemon.config import (
    Config,
    EvaluationConfig,
    LearnConfig,
    LlamaConfig,
    RedactConfig,
    ReefConfig,
    ServerConfig,
    StorageConfig,
    TeacherConfig,
    TrainingConfig,
    UpstreamConfig,
)

TARGET = Path(__file__).with_name("configuration.md")

_SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("reef", ReefConfig),
    ("server", ServerConfig),
    ("engine", LlamaConfig),
    ("engine (kind: upstream)", UpstreamConfig),
    ("teacher", TeacherConfig),
    ("training", TrainingConfig),
    ("learn", LearnConfig),
    ("evaluation", EvaluationConfig),
    ("storage", StorageConfig),
    ("storage.redact", RedactConfig),
)

_INTRODUCTION = """\
# Configuration

`~/.reef/config.yaml` (written by `reef init`; `REEF_HOME` moves the folder), then the file of `reef serve -c FILE`, then the
environment (`REEF_SERVER_PORT=8901` sets `server.port`), then the command line: later wins. The files are watched: a change that
validates takes effect where it can, and the log says where a restart is needed. Unknown keys, duplicates and wrong types
are refused with file, line and the nearest known name.

```sh
reef config show      # each value, and where it came from
reef config check     # also whether the recipes are there and take their settings
```

```yaml
reef:
  recipe: sft
  batch_size: 8
server: {port: 8900}
engine: {kind: llama, model: embedded}
learn: {mode: auto, idle_s: 300}
scenarios:
  pi: {learn: {idle_s: 900}}
```

This page is made from the settings' own models by `docs/make_configuration.py`.
"""

_CLOSING = """\
## scenarios

One entry a scenario, each with any of the sections above except `server` and `engine`, which are one a daemon.
`recipe: NAME` is short for `reef: {recipe: NAME}`. What a scenario does not set, it takes from the top level.
`POST /reef/scenarios/NAME/update` with the owner's token and `{"mode": "off"}` (or `manual`, `auto`) writes a scenario's `learn.mode`
into the home's file; it holds at once.
"""


def reference() -> str:
    parts = [_INTRODUCTION]
    for name, model in _SECTIONS:
        parts.append(f"## {name}\n\n{_first_sentence(model)}\n\n{_table(model)}\n{_extra(name)}")
    parts.append(_CLOSING)
    missing = set(Config.model_fields) - {name.split()[0] for name, _ in _SECTIONS} - {"scenarios"}
    if missing:
        raise ValueError(f"sections without a reference: {sorted(missing)}")
    return "\n".join(parts)


def _table(model: type[BaseModel]) -> str:
    rows = ["| setting | type | default | |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        description = " ".join((field.description or "").split()).replace("|", "\\|")
        rows.append(f"| `{name}` | {_type(field)} | {_default(field)} | {description} |")
    return "\n".join(rows) + "\n"


def _type(field: FieldInfo) -> str:
    limits = [text for text in map(_limit, field.metadata) if text]
    return " ".join([_name(field.annotation), *limits]).strip()


def _name(annotation: object) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        limits = [text for constraint in arguments[1:] for text in _limits(constraint)]
        return " ".join([_name(arguments[0]), *limits])
    if origin is Literal:
        return " · ".join(f"`{value}`" for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_name(argument) for argument in arguments if argument is not NoneType)
    if origin is tuple:
        return f"list of {_name(arguments[0])}"
    names: dict[object, str] = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        Path: "path",
        RedactConfig: "object",
    }
    if origin is dict:
        return f"object of {_name(arguments[1])}s"
    return names.get(annotation, str(annotation))


def _limits(constraint: object) -> list[str]:
    found = constraint.metadata if isinstance(constraint, FieldInfo) else [constraint]
    return [text for text in map(_limit, found) if text]


def _limit(constraint: object) -> str:
    match = re.fullmatch(r"(Ge|Gt|Le|Lt)\(\w+=(.+)\)", repr(constraint))
    return f"{ {'Ge': '≥', 'Gt': '>', 'Le': '≤', 'Lt': '<'}[match[1]] } {match[2]}" if match else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None:
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if value == ():
        return "`[]`"
    if isinstance(value, int) and value >= 1 << 30 and value % (1 << 30) == 0:
        return f"`{value >> 30}GiB`"
    return f"`{value}`"


def _first_sentence(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _extra(name: str) -> str:
    if name != "reef":
        return ""
    return "\nEvery further key here is a setting of the recipe. Its own model, in its folder, checks it when a run begins.\n"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
    print(f"Wrote {TARGET}")
