"""The operation log as lines: who changed what, and which head stood before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import output
from reef_cli.client import Client, scenario_path

if TYPE_CHECKING:
    from daemon.records import JSONObject


def show(client: Client, scenario: str, limit: int, before: str, as_json: bool) -> None:
    """Newest first. `before`: the number of a row; only earlier ones are shown."""
    answer = client.get(scenario_path(scenario, "commits"), {"limit": limit, "before": before})
    if as_json:
        output.print_json(answer)
        return
    rows = [
        (
            output.text(item.get("id")),
            output.age(item.get("at")),
            output.text(item.get("who"), ""),
            output.text(item.get("operation")),
            heads(item),
            what(item),
        )
        for item in output.rows(answer, "commits")
    ]
    output.print_table(("", "when", "who", "operation", "head", "what"), rows, f"Nothing was done in '{scenario}' yet.")
    if answer.get("next"):
        named = "" if scenario == "default" else f" -s {scenario}"
        print(output.paint(f"Earlier ones: reef releases --log{named} --before {output.text(answer.get('next'))}", output.DIM))


def heads(item: JSONObject) -> str:
    """`r14 → r15`; one name where the head stayed. A candidate is no head: it is what came of a comparison with one."""
    before, after = output.text(item.get("before"), ""), output.text(item.get("after"), "")
    if item.get("operation") in ("held", "rejected"):
        return before
    return f"{before} → {after}" if before and after != before else after


def what(item: JSONObject) -> str:
    """What the row says beyond its operation, in a few words."""
    detail = output.part(item, "detail")
    operation, parts = item.get("operation"), list[str]()
    if operation in ("held", "rejected"):
        parts.append(output.text(item.get("after")))
    if operation in ("pin", "unpin", "dismiss"):
        parts.append(output.text(detail.get("release_id")))
    if operation == "settings":
        names = (output.text(detail.get(name)) for name in ("setting", "before", "after"))
        parts.append("{}: {} → {}".format(*names))
    collected = detail.get("collected")
    if isinstance(collected, list):
        parts.append(f"weights of {', '.join(output.text(one) for one in collected)}")
    if operation == "forget":
        parts.append(f"{output.text(detail.get('records'), '0')} records, {output.text(detail.get('files'), '0')} files of releases")
    if detail.get("repaired"):
        parts.append("added after a crash, from what the releases say")
    parts += [output.text(detail.get(name), "") for name in ("change", "verdict")]
    return " · ".join(part for part in parts if part)
