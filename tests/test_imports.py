"""Imports point one way, and nobody else's package answers to our names."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_import_rules_hold() -> None:
    result = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr


def test_no_other_package_owns_our_import_names() -> None:
    """PyPI's python-daemon and adapters would install over `daemon` and `adapters`."""
    installed = {(distribution.metadata["Name"] or "").lower() for distribution in importlib.metadata.distributions()}
    assert not installed & {"python-daemon", "adapters"}
    import adapters
    import daemon
    import recipes

    for package in (daemon, adapters, recipes):
        assert Path(package.__file__ or "").is_relative_to(ROOT)


def test_every_entry_point_can_be_loaded() -> None:
    for group in ("reef.recipes", "reef.adapters"):
        points = importlib.metadata.entry_points(group=group)
        assert points
        for point in points:
            assert isinstance(point.load(), type)
