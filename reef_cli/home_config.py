"""The text of `config.yaml` as `reef init` writes it, and how its engine section is replaced."""

from __future__ import annotations

import json
import re

from reef_cli.engine_choice import EngineChoice

_FIRST = """\
# Reef's settings. `reef config show` prints all of them and where each comes from, `reef config check` validates
# this file; a running daemon takes a change over and says so where it needs a restart.

reef:
  recipe: recipes.sft.recipe:SFTRecipe # how to learn; its own settings go below it
  batch_size: 8 # new usable exchanges that make a run worth while

server:
  host: 127.0.0.1
  port: 8900

{engine}
learn:
  mode: auto # auto | manual | off
  idle_s: 300
  on_battery: false

storage:
  retention_bytes: 20GiB
  redact: true
"""


def first_config(choice: EngineChoice) -> str:
    return _FIRST.format(engine=engine_section(choice))


def engine_section(choice: EngineChoice) -> str:
    if not choice.url:
        return f"engine:\n  kind: llama\n  model: {_scalar(choice.model)}\n"
    key = f"  api_key_env: {_scalar(choice.api_key_env)}\n" if choice.api_key_env else ""
    return f"engine:\n  kind: upstream\n  url: {_scalar(choice.url)}\n  model: {_scalar(choice.model)}\n{key}"


def with_engine(text: str, choice: EngineChoice) -> str:
    """`text` with its engine section replaced; everything else, comments included, stays as it is."""
    lines = text.splitlines(keepends=True)
    start = next((index for index, line in enumerate(lines) if line.startswith("engine:")), None)
    if start is None:
        return text.rstrip("\n") + "\n\n" + engine_section(choice)
    end = index = start + 1
    while index < len(lines) and lines[index][0] in " \t\n#":  # blank lines and comments after the last setting belong to what follows
        index += 1
        if lines[index - 1][0] in " \t" and lines[index - 1].strip():
            end = index
    return "".join((*lines[:start], engine_section(choice), *lines[end:]))


def _scalar(text: str) -> str:
    """Plain where YAML reads it as the same text, quoted otherwise."""
    return text if re.fullmatch(r"[A-Za-z/][\w./-]*", text) and text not in ("true", "false", "null") else json.dumps(text)
