"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Scenario: TypeAlias = Annotated[str, typer.Option("--scenario", "-s", metavar="NAME", help="The workload that is meant.")]
AsJSON: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Limit: TypeAlias = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=100, help="At most this many.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")]
