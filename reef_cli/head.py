"""The operations that move a scenario's head: each sends the head that the caller saw."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from reef_cli import output
from reef_cli.client import Client, NeedsYes, scenario_path
from reef_cli.consent import Consent, confirmed

if TYPE_CHECKING:
    from daemon.records import JSONObject


def move(operation: str, scenario: str, release: str | None, as_json: bool, consent: Consent | None = None) -> None:
    """Ask the daemon for `promote`, `rollback` or `undo`.

    Raises:
        Conflict: somebody else moved the head meanwhile, nothing would change, or nobody said yes to what the guard found.
    """
    client = Client()
    path = scenario_path(scenario, operation)
    head = client.get(scenario_path(scenario, "releases", "head")).get("release_id")
    body: JSONObject = {"expected_head": head, **({"release_id": release} if release is not None else {})}
    try:
        answer = client.post(path, body)
    except NeedsYes as error:
        target = output.text(error.shown.get("release_id"), release or "")
        of = "" if scenario == "default" else f" -s {scenario}"
        look = f"reef diff {output.text(head)} {target}{of}"
        yes = confirmed(error.shown, f"Let {target} serve with it", look, f"reef {operation} {target}{of}", consent or Consent(), as_json)
        answer = client.post(path, {**body, "confirmed": yes})
    run = output.part(answer, "run")
    if run:
        _follow_again(client, scenario, answer, output.text(run.get("run_id")), as_json)
    elif as_json:
        output.print_json(answer)
    else:
        _tell(scenario, output.text(head), output.text(answer.get("release_id")), output.text(answer.get("change"), operation))


def _follow_again(client: Client, scenario: str, answer: JSONObject, run_id: str, as_json: bool) -> None:
    """An aged candidate is evaluated on what serves now; exit code 1 where that does not end in a decision."""
    from reef_cli.following import follow, verdict

    print(output.text(answer.get("sentence")), file=sys.stderr if as_json else sys.stdout)
    try:
        run = follow(client, scenario, run_id)
    except KeyboardInterrupt:
        print(f"\nThe run {run_id} goes on, and decides. See it: reef runs {run_id} -s {scenario}", file=sys.stderr)
        raise
    release = output.text(run.get("release_id"), "")
    if as_json:
        output.print_json(run)
    elif run.get("verdict") == "promoted":
        print(output.printable(output.text(run.get("sentence"))))
        made = client.get(scenario_path(scenario, "releases", release))
        _tell(scenario, output.text(answer.get("head")), release, output.text(made.get("change"), "promote"))
    else:
        print(verdict(run))
        stands = output.text(answer.get("head"))
        if run.get("verdict") == "held" and release:
            print(f"  {stands} serves as before. Let the two serve together all the same: reef promote {release} -s {scenario}")
        else:
            print(f"  {stands} serves as before. Run the recipe anew on it: reef evolve -s {scenario}")
    if run.get("status") in ("failed", "cancelled"):
        raise typer.Exit(1)


def _tell(scenario: str, before: str, release: str, change: str) -> None:
    print(f"{release} serves in '{scenario}' now ({before} before): {output.printable(change)}")
    print(f"  Sessions under way keep their release until they are idle. To take it back: reef undo -s {scenario}")
