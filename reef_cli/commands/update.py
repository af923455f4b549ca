"""`reef update [AGENT]`."""

from __future__ import annotations

from typing import Annotated

import typer

from reef_cli import output
from reef_cli.client import Client
from reef_cli.commands.install import put_on_path, view
from reef_cli.options import AsJSON


def update(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Such as pi; without it, all that are installed.", show_default=False)] = "",
    as_json: AsJSON = False,
) -> None:
    """They get the harness that serves now, and the model with its window. An agent that runs keeps what it has read until it starts again.

    \b
    Examples:
      reef update
      reef update pi
    """
    from daemon.errors import NotFound
    from daemon.harness.adapter import adapter_names, find_adapter
    from daemon.harness.installed import read_manifest
    from reef_cli.agents import served_context

    client = Client()
    names = [agent] if agent else [name for name in adapter_names() if read_manifest(client.home.agents / name) is not None]
    done = []
    for name in names:
        adapter = find_adapter(name)
        before = read_manifest(client.home.agents / adapter.name)
        if before is None:
            raise NotFound(f"{adapter.title} is not installed.", f"Install it: reef install {adapter.name}")
        context = served_context(client, adapter.name)
        installed = adapter.install(context)
        put_on_path(adapter, context)
        done.append(view(adapter, context, installed))
        if not as_json:
            was, now = before.release_id or "no release", context.release_id or "no release"
            harness = f"its harness is that of {now}" if was == now else f"its harness went from {was} to {now}"
            print(f"{adapter.title} {installed.version}: {harness}, its model is {context.model_id}.")
    if as_json:
        output.print_json({"updated": [*done]})
    elif not names:
        print("No agent is installed. See what there is: reef adapters")
