"""The harness tree as the harness service sees it; the type itself stands on the ground floor, beside the releases that store it."""

from __future__ import annotations

from daemon.harness_tree import RULES_PATH, SERVING_HINTS_PATH, SETTINGS_PATH, HarnessTree, check_path, check_tree

__all__ = ["RULES_PATH", "SERVING_HINTS_PATH", "SETTINGS_PATH", "HarnessTree", "check_path", "check_tree"]
