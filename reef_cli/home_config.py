"""The text of `config.yaml` as `reef init` writes it, and how its engine section is replaced."""

from __future__ import annotations

from daemon.config_edit import scalar, with_section
from reef_cli.engine_choice import EngineChoice

_FIRST = """\
# Reef's settings. `reef config show` prints all of them and where each comes from, `reef config check` validates
# this file; a running daemon takes a change over and says so where it needs a restart.

reef:
  recipe: {recipe}
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


TRAINING = "sft"
EXAMPLES = "demos"
_SFT = f"{TRAINING} # how to learn; its own settings go below it"
_DEMOS = f"{EXAMPLES} # how to learn: by examples, for the weights are the server's; its own settings go below it"


def first_config(choice: EngineChoice) -> str:
    return _FIRST.format(engine=engine_section(choice), recipe=_DEMOS if choice.url else _SFT)


def engine_section(choice: EngineChoice) -> str:
    if not choice.url:
        return f"engine:\n  kind: llama\n  model: {scalar(choice.model)}\n"
    key = f"  api_key_env: {scalar(choice.api_key_env)}\n" if choice.api_key_env else ""
    return f"engine:\n  kind: upstream\n  url: {scalar(choice.url)}\n  model: {scalar(choice.model)}\n{key}"


def with_engine(text: str, choice: EngineChoice) -> str:
    """`text` with its engine section replaced; everything else, comments included, stays as it is."""
    return with_section(text, "engine", engine_section(choice))
