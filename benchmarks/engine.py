"""The embedded engine against bare loops over the same library and against llama-cpp-python's own server, in one run, as ratios.

    .venv/bin/python -m benchmarks.engine [--only ROW] [--quick] [--json] [--server-packages DIR]

Everything is measured through the worker process, as a user gets it, with the embedded model and as many threads as there are cores;
what is compared is measured in turns, and medians are compared. About six minutes on two idle cores; `--quick`, with smaller counts,
about two. The comparison with llama-cpp-python's server needs that server's extras in this environment or in DIR:

    pip install --target DIR fastapi sse-starlette starlette-context pydantic-settings

Prints a table in Markdown. Exit code 1 if a figure that is to be reached is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks.engine_http import four_clients
from benchmarks.engine_sessions import conversation, memory, published_lora
from benchmarks.engine_streams import gaps_while_reading, one_stream, several_streams
from benchmarks.engine_tools import Options, Row

ROWS: dict[str, Callable[[Options], Awaitable[list[Row]]]] = {
    "one": one_stream,
    "several": several_streams,
    "clients": four_clients,
    "gaps": gaps_while_reading,
    "conversation": conversation,
    "lora": published_lora,
    "memory": memory,
}
_LIMIT_S = 600.0  # of one row
_HELD = {True: "yes", False: "no", None: "-"}


def markdown(rows: list[Row]) -> str:
    """One line a row."""
    lines = ["| what | here | against | there | result | to reach | held |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        cells = (row.what, row.here, row.against, row.there, row.result, row.reach or "-", _HELD[row.held])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


async def measure(names: list[str], options: Options) -> tuple[list[Row], list[str]]:
    """All rows asked for, and the names of those that could not be measured."""
    rows: list[Row] = []
    failed = []
    for name in names:
        began = time.monotonic()
        try:
            rows += await asyncio.wait_for(ROWS[name](options), _LIMIT_S)
        except (RuntimeError, OSError, TimeoutError) as error:
            failed.append(name)
            print(f"{name}: not measured: {str(error) or type(error).__name__}", file=sys.stderr)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return rows, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(ROWS), help="only these; may be given several times")
    parser.add_argument("--quick", action="store_true", help="smaller counts, for a look; the figures are rougher")
    parser.add_argument("--json", action="store_true", help="print one JSON object with all figures")
    parser.add_argument("--server-packages", type=Path, metavar="DIR", help="where the extras of llama-cpp-python's server are")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        options = Options(arguments.quick, Path(scratch), arguments.server_packages)
        rows, failed = asyncio.run(measure(arguments.only or list(ROWS), options))
    held = not failed and all(row.held is not False for row in rows)
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "not_measured": failed, "held": held}, indent=2, ensure_ascii=False))
    else:
        print(markdown(rows))
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
