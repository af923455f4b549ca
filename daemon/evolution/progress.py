"""What a run tells while it works: one JSON object an event, shown live and kept with the run.

Kinds: `phase`, `step`, `task`, `probe`, `answer`, `note`, `trainer`, `candidate`, `decision`, `result`, `heartbeat`; `docs/` and
`daemon.evolution.events` list their fields.
"""

from __future__ import annotations

from collections.abc import Callable

from daemon.records import JSON, JSONObject


class Progress:
    """Emits events to whoever started the run."""

    def __init__(self, send: Callable[[JSONObject], None]) -> None:
        """`send` passes one event on; it must be safe to call from several threads."""
        self._send = send

    def emit(self, kind: str, **fields: JSON) -> None:
        self._send({"type": kind, **fields})

    def phase(self, name: str, detail: str = "") -> None:
        """A part of the run begins: `select`, `propose`, `train`, `evaluate`, `decide`."""
        self.emit("phase", phase=name, detail=detail)

    def note(self, text: str) -> None:
        """A sentence worth showing: what was skipped and why."""
        self.emit("note", text=text)

    def step(self, step: int, steps: int, loss: float, **more: JSON) -> None:
        """One training step of `steps`; `loss` in nats a token."""
        self.emit("step", step=step, steps=steps, loss=loss, **more)
