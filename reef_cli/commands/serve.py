"""`reef serve`: the daemon in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from reef_cli.daemon_process import become, command, serve_arguments
from reef_cli.locations import home

ConfigFile: TypeAlias = Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings on top of the home's own.")]
Port: TypeAlias = Annotated[int | None, typer.Option("--port", metavar="N", min=0, max=65535, help="The port to listen on; 0: a free one.")]


def serve(config: ConfigFile = None, port: Port = None) -> None:
    """Ctrl-C stops it; requests in flight are finished first.

    \b
    Examples:
      reef serve
      reef serve -c serve.yaml --port 8901
    """
    become(command("serve", home(), serve_arguments(config, port)))
