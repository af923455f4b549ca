"""`reef harness [show|apply|proposals]`: the rules, skills, prompts, commands, extensions and settings that serve."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from daemon.errors import BadRequest
from reef_cli import comparison, harness_folder, output
from reef_cli.client import Client, scenario_path
from reef_cli.consent import AcceptExecutables, Consent, YesToFindings, confirmed
from reef_cli.options import AsJSON, Scenario
from reef_cli.release_page import said

if TYPE_CHECKING:
    from daemon.records import JSONObject

_MODES = 5


def harness(
    action: Annotated[
        Literal["show", "apply", "proposals"],
        typer.Argument(
            help="`show` lists or writes it, `apply` publishes a folder as yours, `proposals` lists what agents propose.",
            show_default=False,
        ),
    ] = "show",
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="For show: write it there. For apply: what is to serve.", show_default=False)
    ] = "",
    release: Annotated[str, typer.Option("--release", "-r", metavar="RELEASE", help="For show: of this one; else what serves.")] = "",
    yes: YesToFindings = False,
    accept_executables: AcceptExecutables = False,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """`apply` merges the folder onto what serves, three ways, if `show` wrote it; any other folder replaces the whole harness. Where both
    changed the same lines, each place is named and nothing changes. What the guard finds is shown and asked for, as by `reef promote`.
    Links, files that are no text, and more than 2,000 files or 256 KiB each are refused; file modes are not kept.

    \b
    Examples:
      reef harness -s pi
      reef harness show mine -s pi && $EDITOR mine/AGENTS.md && reef harness apply mine -s pi
      reef harness proposals -s pi
    """  # fmt: skip
    if action == "show":
        _show(scenario, release, folder, as_json)
    elif action == "apply":
        if not folder:
            raise BadRequest("Which folder is to serve?", "reef harness apply FOLDER; reef harness show FOLDER writes one.")
        _apply(scenario, Path(folder), Consent(yes, accept_executables), as_json)
    elif folder:
        raise BadRequest(f"'{folder}' is too much.", "reef harness proposals")
    else:
        _proposals(scenario, as_json)


def _show(scenario: str, release: str, folder: str, as_json: bool) -> None:
    answer = Client().get("/reef/harness", {"release_id": release}, scenario)
    files = {path: text for path, text in output.part(answer, "files").items() if isinstance(text, str)}
    name = output.text(answer.get("release_id"))
    more = "" if scenario == "default" else f" -s {scenario}"
    if folder:
        harness_folder.write(Path(folder), files, scenario, name)
    if as_json:
        output.print_json(answer)
    elif folder:
        count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
        print(f"{count} of {name} in {folder}. Change what is there, then: reef harness apply {folder}{more}")
    else:
        rows = [(path, output.size(len(text.encode(errors="replace"))), str(text.count("\n"))) for path, text in sorted(files.items())]
        output.print_table(("file", "size", "lines"), rows, f"{name} of '{scenario}' has no harness yet.")
        texts = f"With their texts: reef show {name} --files{more}. " if files else ""
        print(f"{texts}To change it: reef harness show FOLDER{more}")


def _apply(scenario: str, folder: Path, consent: Consent, as_json: bool) -> None:
    files, modes = harness_folder.read(folder)
    of, base = harness_folder.note_of(folder)
    if of and of != scenario:
        raise BadRequest(f"{folder} was written from the scenario {of}.", f"reef harness apply {folder} -s {of}")
    client, path = Client(), scenario_path(scenario, "harness")
    head = output.text(client.get(scenario_path(scenario, "releases", "head")).get("release_id"))
    body: JSONObject = {"files": {**files}, "base_release_id": base or head, "expected_head": head, "note": f"from {folder.name}"}
    seen = client.post(path, {**body, "dry_run": True})
    more = "" if scenario == "default" else f" -s {scenario}"
    if output.rows(seen, "findings"):
        again = f"reef harness apply {folder}{more}"
        yes = confirmed(seen, f"Publish {folder}", f"see the files in {folder}", again, consent, as_json)
        answer = client.post(path, {**body, "confirmed": yes})
    else:
        for line in comparison.files(seen):
            print(line, file=sys.stderr if as_json else sys.stdout)
        answer = client.post(path, body)
    if as_json:
        output.print_json(answer)
        return
    if not answer.get("published"):
        print(f"{head} says that already; nothing would change.")
        return
    made = output.part(answer, "release")
    line = output.printable(output.text(made.get("line")))
    print(f"\n{output.text(made.get('release_id'))} serves in '{scenario}' now ({head} before): {line}")
    print(f"  Installed agents get it by: reef update. To take it back: reef undo{more}")
    if modes:
        shown = ", ".join(modes[:_MODES]) + (f" and {len(modes) - _MODES} more" if len(modes) > _MODES else "")
        print(output.printable(f"  Not kept: the executable mode of {shown}."))


def _proposals(scenario: str, as_json: bool) -> None:
    answer = Client().get("/reef/harness/proposals", scenario=scenario)
    if as_json:
        output.print_json(answer)
        return
    more = "" if scenario == "default" else f" -s {scenario}"
    found = output.rows(answer, "proposals")
    if not found:
        print(f"No agent has proposed anything for '{scenario}' that waits.")
        return
    for one in found:
        name, findings = output.text(one.get("proposal_id")), one.get("findings")
        facts = [output.age(one.get("proposed_at")), output.printable(output.text(one.get("change")))]
        facts += [f"the guard found {findings}"] if findings else []
        facts += ["no longer fits what serves"] if one.get("aged") else []
        print(f"{output.paint(name, output.BOLD)} {' · '.join(facts)}")
        for change in output.rows(one, "mutations"):
            print(output.printable(f"    {output.text(change.get('kind'))} {output.text(change.get('entry'))}  {said(change)}".rstrip()))
    first = output.text(found[0].get("proposal_id"))
    print(f"Look: reef diff head {first}{more}. Let it serve: reef promote {first}{more}")
