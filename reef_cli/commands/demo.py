"""`reef demo`: the whole loop on real input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_cli.options import AsJSON


def demo(
    repo: Annotated[
        Path | None, typer.Option("--repo", metavar="PATH", help="Take the prompts from the commits of this git repository of yours.")
    ] = None,
    as_json: AsJSON = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary home, and say where it is.")] = False,
) -> None:
    """Asks for commit messages through the OpenAI SDK, corrects eight replies, lets two recipes learn from the
    corrections, and shows before, after, and after rolling back. Takes five to ten minutes on two cores, needs no network and
    leaves your own home alone. The exit code is 0 only if every step held.

    \b
    Examples:
      reef demo
      reef demo --repo ~/src/my-project
    """
    from rich.console import Console

    from reef_cli.demo.play import Demo
    from reef_cli.demo.repository import workload_of
    from reef_cli.demo.server import DemoServer
    from reef_cli.demo.workload import shipped_workload
    from reef_cli.output import print_json

    console = Console(highlight=False, stderr=as_json)  # the story goes aside where a program reads the result
    workload = shipped_workload()
    if repo is not None:
        workload = workload_of(repo.expanduser(), workload)
    with DemoServer(keep) as server:
        player = Demo(workload, server, console)
        held = player.play()
    if keep:
        console.print(f"   The home is kept: {server.home.root}", highlight=False)
    if as_json:
        print_json(player.summary())
    if not held:
        raise typer.Exit(1)
