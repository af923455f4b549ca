"""`reef forget ID`: erase a session or a record."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.errors import BadRequest, NotFound
from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.forgetting import done, planned
from reef_cli.options import AsJSON, Scenario, Yes
from reef_cli.progress import waiting

if TYPE_CHECKING:
    from daemon.records import JSONObject

_TIMEOUT_S = 1800.0

What = Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or one record's receipt.")]
Retire = Annotated[bool, typer.Option("--retire", help="Also serve without the LoRAs that were trained on it, and erase their weights.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]


def forget(
    what: What, retire: Retire = False, dry_run: DryRun = False, yes: Yes = False, scenario: Scenario = "default", as_json: AsJSON = False
) -> None:
    """Its texts, token ids, reports and search entries go, from releases, runs and files too. This cannot be undone.

    Texts that other sessions hold as well stay. A LoRA cannot unlearn: --retire serves without it.

    \b
    Examples:
      reef forget ses_0ne6… --dry-run
      reef forget rec_0ne6… --yes
    """
    client = Client()
    path = scenario_path(scenario, "forget")
    with waiting("Looking for all that belongs to it"):
        body, plan = _plan(client, path, what)
    if not as_json or not (dry_run or yes):
        _show(plan)
    if dry_run:
        if as_json:
            output.print_json(plan)
        return
    if not yes:
        _confirm()
    with waiting("Forgetting"):
        answer = client.post(path, {**body, "retire": retire}, timeout_s=_TIMEOUT_S)
    if as_json:
        output.print_json(answer)
    else:
        _tell(answer, retire)


def _plan(client: Client, path: str, what: str) -> tuple[JSONObject, JSONObject]:
    """The request, and what would go: a session of this id, else a record."""
    first, second = ("record", "session") if what.startswith("rec_") else ("session", "record")
    try:
        return {first: what}, client.post(path, {first: what, "dry_run": True}, timeout_s=_TIMEOUT_S)
    except NotFound as missing:
        try:
            return {second: what}, client.post(path, {second: what, "dry_run": True}, timeout_s=_TIMEOUT_S)
        except NotFound:
            raise missing from None


def _show(plan: JSONObject) -> None:
    for line in planned(plan):
        print(line, file=sys.stderr)
    if any(release.get("trained") for release in output.rows(plan, "releases")):
        print("  A LoRA cannot unlearn. To serve without it, and erase its weights: --retire", file=sys.stderr)


def _confirm() -> None:
    if not sys.stdin.isatty():
        raise BadRequest("Nobody is there to confirm.", "Add --yes, or look first with --dry-run.")
    typer.confirm("Forget it? This cannot be undone.", abort=True, err=True)


def _tell(answer: JSONObject, retire: bool) -> None:
    for line in done(answer):
        print(line)
    if not retire and any(release.get("trained") and release.get("serving") for release in output.rows(answer, "releases")):
        print("  What serves was trained on it. To serve something else: reef rollback, or reef evolve for a new training.")
