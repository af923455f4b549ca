"""`reef connect`: settings for clients that have no harness of ours."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from reef_cli import output
from reef_cli.client import Client
from reef_cli.connecting import TARGETS, Served
from reef_cli.locations import home as default_home
from reef_cli.locations import shown
from reef_cli.options import AsJSON


class Known(StrEnum):
    ZED = "zed"
    VSCODE = "vscode"
    CONTINUE = "continue"
    AIDER = "aider"
    CLINE = "cline"


def connect(
    client: Annotated[Known, typer.Argument(metavar="CLIENT", help="zed, vscode, continue, aider or cline.")],
    print_only: Annotated[bool, typer.Option("--print", help="Write nothing: show what belongs where.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Take the settings back.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Everything else in the client's settings stays as it is, comments too, and what stood there is kept for --restore. Settings
    that cannot be read are left. The client's requests go into a scenario of its own name.

    \b
    Examples:
      reef connect zed
      reef connect aider --print
      reef connect zed --restore
    """
    from reef_cli import connecting

    target = TARGETS[client.value]
    if restore:
        path = connecting.restore(target, client.value, default_home())
        _tell(as_json, {"client": client.value, "path": str(path), "restored": True}, f"Reef's settings are out of {shown(path)}.")
        return
    daemon = Client()
    served = _served(daemon, client.value)
    hint = target.hint.format(token=shown(daemon.home.client_token))
    if print_only or target.put is None:
        without_token = replace(served, token=f"the text of {shown(daemon.home.client_token)}")
        text = target.put("", without_token)[0] if target.put else f"Base URL: {served.url}\nModel ID: {served.model}\n"
        where = shown(target.path(Path.home())) if target.put else ""
        _tell(as_json, {"client": client.value, "path": where, "text": text, "hint": hint}, f"{where}\n\n{text}\n{hint}".lstrip())
        return
    path = connecting.connect(target, client.value, served, Path.home(), daemon.home)
    said = f"{target.title} is connected by {shown(path)}.\n  {hint}"
    if target.holds_token:
        said += "\n  The file holds the client token as text and is readable for you alone: keep it out of what you share or sync."
    _tell(as_json, {"client": client.value, "path": str(path), "hint": hint}, said)


def _served(client: Client, name: str) -> Served:
    from reef_cli.agents import served_context

    context = served_context(client, name)
    token = client.home.client_token.read_text(encoding="utf-8").strip()
    return Served(f"{context.base_url}/reef/scenarios/{name}/v1", token, context.model_id, context.context_tokens, context.max_tokens)


def _tell(as_json: bool, answer: dict[str, str | bool], sentence: str) -> None:
    if as_json:
        output.print_json({**answer})
    else:
        print(sentence)
