"""What a turn's feedback and fate say, cheaply: shown beside the record, never instead of it."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.records import Inference, Report, Status


def signals_of(inference: Inference, reports: Sequence[Report], retries: int) -> tuple[str, ...]:
    """Of "scored", "corrected", "commented", "aborted", "retried" those that hold, in this order."""
    present = {
        "scored": any(report.score is not None for report in reports),
        "corrected": any(report.correction is not None for report in reports),
        "commented": any(report.feedback is not None and report.correction is None for report in reports),
        "aborted": inference.status is Status.ABORTED,
        "retried": retries > 0,
    }
    return tuple(name for name, there in present.items() if there)
