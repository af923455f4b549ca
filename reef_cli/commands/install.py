"""`reef install AGENT`: a coding agent on Reef's model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reef_cli import output
from reef_cli.client import Client
from reef_cli.options import AsJSON

if TYPE_CHECKING:
    from daemon.harness.adapter import Adapter, InstallContext, Installed
    from daemon.records import JSONObject

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="Such as pi; all of them: reef adapters")]


def install(
    agent: Agent,
    release: Annotated[
        str, typer.Option("--release", metavar="R", help="Its harness, instead of what serves now.", show_default=False)
    ] = "",
    as_json: AsJSON = False,
) -> None:
    """It goes into a folder of its own in Reef's home, beside what you use today, with the client's token and a scenario of its own.
    Running it again is safe.

    \b
    Examples:
      reef install pi
      reef install claude
    """
    from daemon.harness.adapter import find_adapter
    from reef_cli.agents import served_context, used

    adapter = find_adapter(agent)
    client = Client()
    context = served_context(client, adapter.name, release)
    with used(adapter, client.home):
        installed = adapter.install(context)
    how = put_on_path(adapter, context)
    if as_json:
        output.print_json(view(adapter, context, installed))
        return
    print(f"{adapter.title} {installed.version} is installed in {context.home}.")
    for note in (how, *installed.notes):
        print(f"  {note}")


def put_on_path(adapter: Adapter, context: InstallContext) -> str:
    """Link the launcher where it can be typed, and keep note of the link for the uninstall. Returns how to start the agent."""
    from daemon.failpoints import failpoint
    from daemon.harness.installing import held
    from daemon.harness.launcher import launcher_path
    from reef_cli.agents import link_on_path

    launcher = launcher_path(context.home, adapter.name)
    if not launcher.exists():
        return "Start it as you do."
    failpoint("install.laid-down")
    link, sentence = link_on_path(launcher)
    failpoint("install.linked")
    if link is not None:
        with held(context.home) as place:
            place.note_link(str(link))
    return sentence


def view(adapter: Adapter, context: InstallContext, installed: Installed) -> JSONObject:
    return {
        "installed": adapter.name,
        "version": installed.version,
        "release_id": context.release_id,
        "files": dict(installed.files),
        "notes": [*installed.notes],
    }
