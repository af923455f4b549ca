"""`reef init`: the home, its configuration and the two tokens."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from daemon.paths import Home
from reef_cli import output
from reef_cli.engine_choice import EngineChoice, ask, parse, prepare
from reef_cli.home_config import EXAMPLES, TRAINING, first_config, with_engine
from reef_cli.locations import home, shown
from reef_cli.options import AsJSON, Yes
from reef_cli.running import find


def init(
    engine: Annotated[
        str, typer.Option(metavar="WHAT", help="embedded, a .gguf file, owner/repo/file.gguf to download, or an OpenAI-compatible URL.")
    ] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="With a URL: the model's name there.")] = "",
    api_key_env: Annotated[str, typer.Option(metavar="NAME", help="With a URL: the environment variable that holds its key.")] = "",
    yes: Yes = False,
    as_json: AsJSON = False,
) -> None:
    """It can be run again: tokens and settings that are there stay, and a new --engine replaces only the engine's section.

    \b
    Examples:
      reef init
      reef init --yes
      reef init --engine ~/models/qwen.gguf
      reef init --engine http://127.0.0.1:11434/v1 --model qwen3
    """
    where = home()
    known = where.config.exists()
    if engine:
        choice = parse(engine, model, api_key_env)
    elif known:
        choice = None
    elif yes or as_json:
        choice = EngineChoice("embedded")
    else:
        choice = ask()
    if choice is not None:
        choice = prepare(choice, where)
    done = _write(where, choice)
    if as_json:
        output.print_json({"home": str(where.root), "config": str(where.config), "done": [*done]})
        return
    for line in done or ["Nothing to do: the configuration and the tokens are there."]:
        print(line)
    running = find(where)
    if running is None:
        print("Next: reef up")
    elif done:
        print(f"The daemon runs (process {running.pid}); for it to take this over: reef down && reef up")


def _write(where: Home, choice: EngineChoice | None) -> list[str]:
    """Write what is missing; a sentence for each thing done."""
    from daemon.config_load import load
    from daemon.files import write_atomic
    from daemon.tokens import Tokens

    done: list[str] = []
    _make_home(where)
    if not where.config.exists():
        write_atomic(where.config, first_config(choice or EngineChoice("embedded")), 0o600)
        done.append(f"Wrote {shown(where.config)}.")
    elif choice is not None:
        old = where.config.read_text(encoding="utf-8")
        new = with_engine(old, choice)
        if new != old:
            write_atomic(where.config.with_suffix(".yaml.before"), old, 0o600)
            write_atomic(where.config, new, 0o600)
            done.append(f"Changed the engine in {shown(where.config)}; the file as it was: {shown(where.config)}.before")
    recipe = load(where, None, os.environ, {}).config.reef.recipe
    if choice is not None and choice.url and recipe == TRAINING:
        advice = f"set reef.recipe to {EXAMPLES} in {shown(where.config)}"
        done.append(f"The recipe stays {recipe}, which trains weights, and those are the server's now: to learn by examples, {advice}.")
    missing = [path for path in (where.client_token, where.owner_token) if not path.exists()]
    Tokens.load(where)
    done += [f"Made the {path.name} token, {shown(path)} (readable by you alone)." for path in missing]
    return done


def _make_home(where: Home) -> None:
    from daemon.errors import StorageError

    try:
        where.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(where.root, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        hint = "Mend its permissions, or set REEF_HOME to a folder of yours."
        raise StorageError(f"Cannot write to {where.root}: {error.strerror}.", hint) from error
