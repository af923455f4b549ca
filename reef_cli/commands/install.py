"""`reef install AGENT`: a coding agent on Reef's model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from daemon.errors import NotFound
from reef_cli import output
from reef_cli.client import Client
from reef_cli.locations import home
from reef_cli.options import AsJSON

if TYPE_CHECKING:
    from daemon.harness.adapter import InstallContext

_LONGEST_REPLY = 4096


def install(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Such as pi.")],
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove what was installed.")] = False,
    as_json: AsJSON = False,
) -> None:
    """It goes into a folder of its own in Reef's home, beside what you use today, and gets the client's token. Run it again to update.

    \b
    Examples:
      reef install pi
      reef install pi --uninstall
    """
    from daemon.harness.adapter import find_adapter

    adapter = find_adapter(agent)
    context = _removal_context(adapter.name) if uninstall else _context(adapter.name)
    if uninstall:
        adapter.uninstall(context)
        if as_json:
            output.print_json({"uninstalled": adapter.name})
        else:
            print(f"{adapter.title} is removed; {context.home} holds nothing of ours any more.")
        return
    installed = adapter.install(context)
    if as_json:
        output.print_json(
            {"installed": adapter.name, "version": installed.version, "files": dict(installed.files), "notes": [*installed.notes]}
        )
        return
    print(f"{adapter.title} {installed.version} is installed in {context.home}.")
    for note in installed.notes:
        print(f"  {note}")


def _removal_context(name: str) -> InstallContext:
    """Enough to remove an agent; the daemon may be down."""
    from daemon.harness.adapter import InstallContext

    where = home()
    return InstallContext(where.agents / name, "", where.client_token, "", 0, 0, name)


def _context(name: str) -> InstallContext:
    """What the adapter is told, as the running daemon says it."""
    from daemon.harness.adapter import InstallContext
    from daemon.harness_tree import HarnessTree

    client = Client()
    status = client.get("/reef/status")
    engine = output.part(status, "engine")
    window = engine.get("context_tokens")
    context_tokens = window if isinstance(window, int) else 8192
    files: dict[str, str] = {}
    release = ""
    try:
        harness = client.get("/reef/harness", scenario=name)
        files = {path: text for path, text in output.part(harness, "files").items() if isinstance(text, str)}
        release = output.text(harness.get("release_id"), "")
    except NotFound:
        pass  # no release of this agent's scenario yet: nothing to lay down
    return InstallContext(
        home=client.home.agents / name,
        base_url=client.daemon.url,
        client_token_path=client.home.client_token,
        model_id=output.text(engine.get("model")),
        context_tokens=context_tokens,
        max_tokens=min(_LONGEST_REPLY, context_tokens // 4),
        scenario=name,
        tree=HarnessTree(files),
        release_id=release,
    )
