"""Whether a release still has its weights, and the sentence where it has not."""

from __future__ import annotations

import time
from enum import StrEnum

from daemon.errors import Conflict
from daemon.versions.release import Release
from daemon.versions.tombstones import Tombstones
from daemon.versions.weights import WeightStore


class WeightState(StrEnum):
    NONE = "none"  # the base model alone
    KEPT = "kept"
    COLLECTED = "collected"  # given up to make room
    ERASED = "erased"  # with a session that they were trained on
    MISSING = "missing"  # gone, and nobody says why


def weight_state(release: Release, weights: WeightStore, tombstones: Tombstones) -> WeightState:
    """Looks whether the files are there, not into them."""
    if release.lora is None:
        return WeightState.NONE
    gone = [stored.sha256 for stored in release.lora.files if not weights.path_of(stored.sha256).is_file()]
    if not gone:
        return WeightState.KEPT
    if any(sha256 in tombstones.weights for sha256 in gone):
        return WeightState.ERASED
    return WeightState.COLLECTED if any(sha256 in tombstones.collected for sha256 in gone) else WeightState.MISSING


def require_weights(release: Release, weights: WeightStore, tombstones: Tombstones) -> None:
    """Raises Conflict where the weights were collected or erased: nothing is damaged, but the release cannot serve."""
    state = weight_state(release, weights, tombstones)
    if state is WeightState.COLLECTED:
        lora = release.lora.files if release.lora is not None else ()
        at = max(tombstones.collected.get(stored.sha256, 0.0) for stored in lora)
        raise Conflict(
            f"The weights of {release.id} were collected on {time.strftime('%Y-%m-%d', time.localtime(at))}: it is not among the newest"
            " releases and was not pinned.",
            f"Its rules are still there: reef show {release.id}. Next time keep a release whole with: reef pin {release.id}",
        )
    if state is WeightState.ERASED:
        message = f"The weights of {release.id} were erased with a session that they were trained on."
        raise Conflict(message, "Choose another release: reef releases")
