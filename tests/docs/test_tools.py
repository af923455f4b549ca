"""What docs/tools.md lists is what there is."""

from __future__ import annotations

import re
from pathlib import Path

from daemon.conformance.outcome import Verdict
from daemon.conformance.suite import CHECKS
from daemon.engine.llama.formats.families import FORMATS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tools.md").read_text(encoding="utf-8")


def test_every_format_is_listed_by_the_name_that_the_status_shows() -> None:
    table = PAGE.split("## How calls are read")[1].split("\n\n")[1]
    listed = {name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])}
    assert listed == {one.name for one in FORMATS} | {"unknown"}


def test_verdicts_and_checks_are_those_of_the_suite() -> None:
    shown = re.findall(r"^  [✓~✗] (\w+) +([a-z-]+)  ", PAGE.split("## Which agents")[1].split("Agents\n")[0], re.MULTILINE)
    assert shown and {check for _, check in shown} <= {check.name for check in CHECKS}
    rows = {row.split("|")[1].strip().lower() for row in PAGE.split("| verdict | means |")[1].split("\n\n")[0].splitlines()[2:]}
    assert rows == {verdict.value for verdict in Verdict}
