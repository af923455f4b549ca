"""`reef uninstall AGENT`."""

from __future__ import annotations

from typing import Annotated

import typer

from reef_cli import output
from reef_cli.commands.install import Agent
from reef_cli.locations import home, shown
from reef_cli.options import AsJSON


def uninstall(
    agent: Agent,
    everything: Annotated[bool, typer.Option("--everything", help="Its conversations and what you changed by hand too.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Its program, its files and its link go. Conversations in the agent's folder and what you changed there by hand stay, and are named.
    What Reef has recorded and learned stays as well.

    \b
    Examples:
      reef uninstall pi
      reef uninstall pi --everything
    """
    from pathlib import Path

    from daemon.errors import DataError
    from daemon.failpoints import failpoint
    from daemon.harness.adapter import find_adapter
    from daemon.harness.installed import read_manifest
    from daemon.harness.installing import held
    from daemon.harness.launcher import launcher_path
    from reef_cli.agents import bare_context, is_link_to, used, usual_links

    adapter = find_adapter(agent)
    context = bare_context(home(), adapter.name)
    try:
        manifest = read_manifest(context.home)
    except DataError:
        if not everything:
            raise
        manifest = None
    was_there = context.home.is_dir()
    launcher = launcher_path(context.home, adapter.name)
    if not everything:
        with used(adapter, home()):
            adapter.uninstall(context)
    elif context.home.is_symlink():
        context.home.unlink()
    elif was_there:
        with held(context.home, finish=False) as place:
            place.remove_everything()
    failpoint("uninstall.linked")
    for link in {*map(Path, manifest.links if manifest else ()), *usual_links(launcher)}:
        if is_link_to(link, launcher):
            link.unlink(missing_ok=True)
    left = sorted(path for path in context.home.rglob("*") if not path.is_dir()) if context.home.is_dir() else []
    if as_json:
        output.print_json({"uninstalled": adapter.name, "was_installed": was_there, "left": [str(path) for path in left]})
        return
    if not was_there:
        print(f"{adapter.title} is not installed; nothing changed.")
        return
    print(f"{adapter.title} is removed.")
    if left:
        print(f"  {len(left)} files of yours stay in {shown(context.home)}. To remove them too: reef uninstall {adapter.name} --everything")
