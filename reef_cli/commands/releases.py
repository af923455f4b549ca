"""`reef releases`: the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Limit, Scenario

if TYPE_CHECKING:
    from daemon.records import JSONObject


def releases(limit: Limit = 20, scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """● serves now, ○ held: it waits for more evidence or for you, × rejected: it was worse.

    \b
    Examples:
      reef releases
      reef releases -s pi --json
    """
    answer = Client().get(scenario_path(scenario, "releases"), {"limit": limit})
    if as_json:
        output.print_json(answer)
        return
    rows = [
        (
            output.text(item.get("release_id")),
            output.age(item.get("recorded_at")),
            output.text(item.get("operation")),
            output.text(item.get("recipe"), ""),
            change_and_reason(item),
            _state(item),
        )
        for item in output.rows(answer, "releases")
    ]
    output.print_table(
        ("release", "made", "by", "recipe", "what changed and why", ""), rows, f"The scenario '{scenario}' has no release yet."
    )


def change_and_reason(item: JSONObject) -> str:
    """`+8 demonstrations · held-out .61→.68 of 80 (+9 −2, p .03)`."""
    parts = [output.text(item.get("change"), "")]
    evaluation = output.part(item, "evaluation")
    before, after = evaluation.get("held_out_before"), evaluation.get("held_out_after")
    if isinstance(before, float | int) and isinstance(after, float | int):
        p = evaluation.get("p")
        chance = f", p {p:.2g}" if isinstance(p, float | int) else ""
        wins, losses, tasks = (output.text(evaluation.get(name), "0") for name in ("wins", "losses", "tasks"))
        parts.append(f"held-out {before:.2f}→{after:.2f} of {tasks} (+{wins} −{losses}{chance})")
    rise = evaluation.get("probe_rise")
    if isinstance(rise, float | int):
        parts.append(f"general text {rise:+.1%}")
    return " · ".join(part for part in parts if part)


def _state(item: JSONObject) -> str:
    if item.get("current"):
        return "● serving"
    state = output.text(item.get("state"), "")
    return {"held": "○ held", "rejected": "× rejected"}.get("held" if item.get("pending") else state, "")
