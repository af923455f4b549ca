"""`reef update [AGENT]`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.errors import Conflict, NotFound, ReefError
from reef_cli import output
from reef_cli.client import Client
from reef_cli.commands.install import put_on_path, view
from reef_cli.consent import Consent
from reef_cli.options import AsJSON

if TYPE_CHECKING:
    from daemon.harness.adapter import Adapter
    from daemon.harness.installed import Manifest
    from daemon.records import JSON


def update(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Such as pi; without it, all that are installed.", show_default=False)] = "",
    discard: Annotated[bool, typer.Option("--discard", help="Drop what was changed by hand.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Yes to what the guard finds in your changes, but for what would run.")] = False,
    accept_executables: Annotated[
        bool, typer.Option("--accept-executables", help="Yes to extensions, hooks, scripts and commands of yours that would run.")
    ] = False,
    model_only: Annotated[
        bool, typer.Option("--model-only", help="Only the model, the window and the address; the harness stays, with your changes.")
    ] = False,
    as_json: AsJSON = False,
) -> None:
    """They get the harness that serves now, and the model with its window. What you changed by hand in an agent's folder is published as
    yours before, merged with what serves; where both changed the same lines, each place is named and nothing changes.

    \b
    Examples:
      reef update
      reef update pi
      reef update pi --discard
      reef update pi --model-only
    """
    from daemon.harness.adapter import adapter_names
    from daemon.harness.installed import MANIFEST

    client, consent = Client(), Consent(yes, accept_executables)
    names = [agent] if agent else [name for name in adapter_names() if (client.home.agents / name / MANIFEST).exists()]
    done: list[JSON] = []
    failed: list[str] = []
    for name in names:
        try:
            done.append(_renew(client, name, as_json) if model_only else _update(client, name, discard, consent, as_json))
        except ReefError as error:
            if len(names) == 1:
                raise
            failed.append(name)
            print(f"{name}: {error.message}\n  {error.hint}", file=sys.stderr)
    if as_json:
        output.print_json({"updated": done, "failed": [*failed]})
    elif not names:
        print("No agent is installed. See what there is: reef adapters")
    if failed:
        raise Conflict(f"{', '.join(failed)}: not updated, as said above; the others are.", f"Each by itself: reef update {failed[0]}")


def _renew(client: Client, name: str, as_json: bool) -> JSON:
    from daemon.harness.adapter import find_adapter
    from reef_cli.agents import served_context, used

    adapter = find_adapter(name)
    manifest = _installed(client, adapter)
    context = replace(served_context(client, adapter.name), release_id=manifest.release_id)
    with used(adapter, client.home):
        installed = adapter.renew(context)
    if not as_json:
        print(f"{adapter.title} is set up for {context.model_id} ({context.context_tokens:,} tokens) at {context.base_url} now.")
    return view(adapter, context, installed)


def _installed(client: Client, adapter: Adapter) -> Manifest:
    """Raises NotFound."""
    from daemon.harness.installed import read_manifest

    manifest = read_manifest(client.home.agents / adapter.name)
    if manifest is None:
        raise NotFound(f"{adapter.title} is not installed.", f"Install it: reef install {adapter.name}")
    return manifest


def _update(client: Client, name: str, discard: bool, consent: Consent, as_json: bool) -> JSON:
    from daemon.harness.adapter import find_adapter
    from daemon.harness.edits import find_edits
    from daemon.harness.installing import held
    from reef_cli import hand_edits
    from reef_cli.agents import served_context, used

    adapter = find_adapter(name)
    before = _installed(client, adapter)
    context = served_context(client, adapter.name)
    with used(adapter, client.home), held(context.home):  # what an interruption left half done is no change by hand: it is finished first
        edits = find_edits(adapter, context)
    changed = edits.changed
    if changed and not discard:
        hand_edits.publish(client, adapter.name, adapter.title, edits, consent, as_json)
        context = served_context(client, adapter.name)
    with used(adapter, client.home):
        installed = adapter.install(context, edits.seen)
    put_on_path(adapter, context)
    if not as_json:
        was, now = before.release_id or "no release", context.release_id or "no release"
        harness = f"its harness is that of {now}" if was == now else f"its harness went from {was} to {now}"
        print(f"{adapter.title} {installed.version}: {harness}, its model is {context.model_id}.")
        for path in changed:
            print(f"  {'Dropped' if discard else f'Yours, now in {now}'}: {path}")
    return {**view(adapter, context, installed), "by_hand": [*changed], "discarded": discard and bool(changed)}
