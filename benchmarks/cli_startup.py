"""How long `reef --help` and `reef status` take, against `python -c "import typer"` in the same run.

    .venv/bin/python benchmarks/cli_startup.py [--rounds 15] [--json]

`reef status` needs a running daemon; without one it is measured up to the sentence that says so. The rounds are interleaved and the
medians compared. Exit code 1 if a limit is passed: help 1.5 times, status 3 times.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

REEF = Path(sys.executable).with_name("reef")
LIMITS = {"help": 1.5, "status": 3.0}
COMMANDS = {"typer": [sys.executable, "-c", "import typer"], "help": [str(REEF), "--help"], "status": [str(REEF), "status"]}


def seconds(command: list[str]) -> tuple[float, int]:
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began, done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    codes: dict[str, int] = {}
    for turn in range(options.rounds + 1):
        for name, command in COMMANDS.items():
            took, codes[name] = seconds(command)
            if turn:  # the first round warms the file cache
                times[name].append(took)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {name: medians[name] / medians["typer"] for name in LIMITS}
    held = all(ratios[name] <= limit for name, limit in LIMITS.items())
    if options.json:
        print(json.dumps({"median_s": medians, "ratio": ratios, "limit": LIMITS, "daemon": codes["status"] == 0, "held": held}, indent=2))
        return 0 if held else 1
    print(f"import typer   {medians['typer'] * 1000:6.0f} ms")
    for name, limit in LIMITS.items():
        note = "" if name == "help" or codes["status"] == 0 else "   (no daemon runs)"
        print(
            f"reef {'--help' if name == 'help' else name:9} {medians[name] * 1000:6.0f} ms   {ratios[name]:.2f} times, limit {limit}{note}"
        )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
