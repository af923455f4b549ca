"""`reef doctor`: check everything that a first user trips over, or try tool calls against an engine."""

from __future__ import annotations

from typing import Annotated

import typer

from daemon.errors import BadRequest
from reef_cli.daemon_process import become, command
from reef_cli.locations import home
from reef_cli.options import AsJSON


def doctor(
    tools: Annotated[bool, typer.Option("--tools", help="Try tool calls, and say which agents will work.")] = False,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="With --tools: against this server instead of the daemon.")] = "",
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="With --tools: this model instead of the first listed.")] = "",
    key_env: Annotated[str, typer.Option("--key-env", metavar="NAME", help="With --url: the variable with that server's key.")] = "",
    as_json: AsJSON = False,
) -> None:
    """Python, compiler, packages, engine and model, memory for training, disk, port, tokens, agents. It needs no daemon.

    With --tools it sends some fifty short requests to the running daemon, or to any OpenAI-compatible server: replies, tool calls,
    results, streams, JSON forms, a prompt that does not fit. It tells what the server breaks from what the model is too weak for, and
    says which coding agents will work. Nothing is recorded. Exit code 1 if a check failed.

    \b
    Examples:
      reef doctor
      reef doctor --json
      reef doctor --tools
      reef doctor --tools --url http://127.0.0.1:11434/v1 --model qwen3:8b
    """
    if (url or model or key_env) and not tools:
        raise BadRequest("--url, --model and --key-env belong to --tools.", "Type: reef doctor --tools")
    arguments = ["--json"] if as_json else []
    if tools:
        arguments += ["--tools", "--url", url, "--model", model, "--key-env", key_env]
    become(command("doctor", home(), arguments))
