"""`kill -9` at every named instant of what changes releases: the old or the new release serves, never a mix, and a check is clean.

The parts are the daemon's own (repository, database, publisher, serving); the engine is scripted, for it has no part in what lies on disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from daemon.failpoints import DISMISS_FAILPOINTS, FAILPOINTS, GC_FAILPOINTS, PIN_FAILPOINTS, STEP_FAILPOINTS
from tests.evolution.release_kills import INSTANTS, cases

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("count", "seed"), [(30, 1), pytest.param(200, 2, marks=pytest.mark.long)])
def test_killed_at_every_instant(tmp_path: Path, count: int, seed: int) -> None:
    command = [sys.executable, "-m", "tests.evolution.release_kills", str(tmp_path), str(count), str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one for one in kills if one["wrong"]] == [] and done.returncode == 0, done.stderr[-4000:]
    assert len(kills) == count and all(one["killed"] for one in kills), "an instant was not reached"
    moved = Counter(one["new"] for one in kills)
    assert moved[True] >= count / 10 and moved[False] >= count / 10, "the instants must lie on both sides of the head's move"


def test_every_named_instant_is_tried() -> None:
    told = {point for points in INSTANTS.values() for point in points}
    assert told == {*FAILPOINTS, *STEP_FAILPOINTS, *PIN_FAILPOINTS, *DISMISS_FAILPOINTS, *GC_FAILPOINTS}
    assert {(operation, point) for operation, point, _ in cases(200, 2)} == {
        (one, point) for one, points in INSTANTS.items() for point in points
    }
