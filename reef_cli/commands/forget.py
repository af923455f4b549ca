"""`reef forget ID`: erase a session or a record."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.errors import BadRequest, NotFound
from reef_cli import output
from reef_cli.client import Client, scenario_path
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
    records, reports, runs = (_length(plan, name) for name in ("records", "reports", "runs"))
    stream = sys.stderr
    print(
        f"To forget: {_count(records, 'record')} and {_count(reports, 'report')} of session {output.text(plan.get('session'))}.",
        file=stream,
    )
    if repeated := _length(plan, "repeated_in"):
        print(
            f"  {_count(repeated, 'later turn')} of the session still say it: forget the whole session to be rid of that too.", file=stream
        )
    if runs:
        print(f"  {_count(runs, 'run')} read it: what they kept in files goes.", file=stream)
    for release in output.rows(plan, "releases"):
        what = ["its LoRA was trained on it"] if release.get("trained") else []
        if release.get("files"):
            what.append(f"{_count(int(str(release['files'])), 'file')} with its text, which will be cleaned")
        serving = ", serves now" if release.get("serving") else f", {release['state']}" if release.get("state") != "published" else ""
        name = output.text(release.get("release_id"))
        print(f"  {name}{serving}: {'; '.join(what) or 'it was made from this among others'}.", file=stream)
    for copy in _list(plan, "copies"):
        print(f"  {copy} keeps a copy. Remove it yourself.", file=stream)
    if any(release.get("trained") for release in output.rows(plan, "releases")):
        print("  A LoRA cannot unlearn. To serve without it, and erase its weights: --retire", file=stream)


def _confirm() -> None:
    if not sys.stdin.isatty():
        raise BadRequest("Nobody is there to confirm.", "Add --yes, or look first with --dry-run.")
    typer.confirm("Forget it? This cannot be undone.", abort=True, err=True)


def _tell(answer: JSONObject, retire: bool) -> None:
    print(f"Forgotten: {_count(_length(answer, 'records'), 'record')}, {_count(_length(answer, 'reports'), 'report')}.")
    if head := answer.get("head"):
        print(f"  {head} serves now, without it.")
    if files := answer.get("files"):
        print(f"  Cleaned in releases: {_count(int(str(files)), 'file')}. `reef fsck` knows them.")
    if dropped := _list(answer, "dropped"):
        print(f"  Given up: {', '.join(dropped)}, held candidates that were made from it.")
    if not retire and any(release.get("trained") and release.get("serving") for release in output.rows(answer, "releases")):
        print("  What serves was trained on it. To serve something else: reef rollback, or reef evolve for a new training.")
    if not answer.get("scrubbed"):
        print("  A reader kept the database's log busy; the last bytes go when it is next emptied, at the latest with: reef down")


def _list(answer: JSONObject, name: str) -> list[str]:
    found = answer.get(name)
    return [str(item) for item in found] if isinstance(found, list) else []


def _length(answer: JSONObject, name: str) -> int:
    return len(_list(answer, name))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
