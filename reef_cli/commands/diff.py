"""`reef diff A B`: two releases side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.commands.show import Release
from reef_cli.comparison import evaluation, files, lora, settings, task_lines
from reef_cli.options import AsJSON, Scenario


def diff(
    before: Release,
    after: Release,
    tasks: Annotated[bool, typer.Option("--tasks", help="Show every task, with what both replied side by side.")] = False,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """Files word by word ([-gone-] {+new+}), the LoRA layer by layer, settings, and the evaluation task by task: + win, − loss, = tie.

    Any two can be compared, held and rejected ones too. `head` is what serves now, `head~1` the one before it.

    \b
    Examples:
      reef diff r12 r14
      reef diff head~1 head
      reef diff head r15 --tasks
    """
    query = {"replies": "1"} if tasks or as_json else {}
    answer = Client().get(scenario_path(scenario, "releases", before, "diff", after), query)
    if as_json:
        output.print_json(answer)
        return
    names = output.text(answer.get("before"), before), output.text(answer.get("after"), after)
    if answer.get("same_content"):
        print(f"{names[0]} and {names[1]} serve the same content.")
    else:
        print(output.paint(f"{names[0]} → {names[1]}", output.BOLD) + f"  {output.printable(output.text(answer.get('line'), ''))}")
    for title, lines in (
        ("", files(answer)),
        ("LoRA", lora(answer, names)),
        ("Settings", settings(answer, names)),
        ("Evaluation", [*evaluation(answer, names), *task_lines(answer, whole=tasks)]),
    ):
        if lines and title:
            print(f"\n{output.paint(title, output.BOLD)}")
        for line in lines:
            print(line)
