"""`reef config show|check`: the settings."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from reef_cli import output
from reef_cli.commands.serve import ConfigFile
from reef_cli.locations import home, shown
from reef_cli.options import AsJSON

if TYPE_CHECKING:
    from daemon.config_load import LoadedConfig
    from daemon.records import JSON

_SECRET = re.compile(r"(?i)(key|token|secret|password)s?$")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


def config(
    action: Annotated[Literal["show", "check"], typer.Argument(help="`show` prints each setting, `check` only validates.")] = "show",
    file: ConfigFile = None,
    as_json: AsJSON = False,
) -> None:
    """Sources, later wins: the home's config.yaml, the file of `-c`, environment variables such as REEF_SERVER_PORT,
    the command line. Secrets are masked.

    \b
    Examples:
      reef config show
      reef config check -c serve.yaml
    """
    from daemon.config_load import load

    where = home()
    loaded = load(where, file, os.environ, {}, Path.cwd())
    if action == "check":
        _check_recipes(loaded)
    values = {name: mask(name, value) for name, value in flatten(loaded.config.model_dump(mode="json")).items()}
    if as_json:
        output.print_json({name: {"value": value, "origin": loaded.origins.get(name, "default")} for name, value in values.items()})
    elif action == "check":
        files = [path for path in loaded.files if path.exists()]
        print(f"The settings hold: {', '.join(shown(path) for path in files) or 'all defaults, no file'}.")
    else:
        rows = [(name, _written(name, value), _origin(loaded.origins.get(name, "default"))) for name, value in values.items()]
        output.print_table(("setting", "value", "from"), rows, "")


def _check_recipes(loaded: LoadedConfig) -> None:
    """Raises `ConfigError` for a recipe that is not there or does not take its settings."""
    import asyncio

    from daemon.errors import ConfigError
    from daemon.recipe_check import check_recipes

    problems = asyncio.run(check_recipes(loaded))
    if problems:
        also = "; ".join(str(problem).rstrip(".") for problem in problems[1:])
        raise ConfigError(problems[0].message + (f" Also: {also}." if also else ""), problems[0].hint, param=problems[0].param)


def flatten(config: dict[str, JSON]) -> dict[str, JSON]:
    """`{"server": {"port": 1}}` as `{"server.port": 1}`."""
    flat: dict[str, JSON] = {}
    for section, value in config.items():
        if isinstance(value, dict) and section != "scenarios":
            flat.update({f"{section}.{key}": own for key, own in value.items()})
        else:
            flat[section] = value
    return flat


def mask(name: str, value: JSON) -> JSON:
    """The value without secrets: those of keys that name one, and user names and passwords in URLs."""
    if isinstance(value, dict):
        return {key: mask(key, own) for key, own in value.items()}
    if isinstance(value, list):
        return [mask(name, own) for own in value]
    if isinstance(value, str):
        return "•••" if _SECRET.search(name) and value else _CREDENTIALS.sub("•••@", value)
    return value


def _written(name: str, value: JSON) -> str:
    """The value as a settings file says it."""
    from daemon.config import write_size

    return write_size(value) if name.endswith("_bytes") and isinstance(value, int) else output.text(value)


def _origin(origin: str) -> str:
    path, separator, line = origin.rpartition(":")
    return f"{shown(Path(path))}:{line}" if separator and line.isdigit() else origin
