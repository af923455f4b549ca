"""What a run tells while it works: one JSON object an event, shown live and kept with the run.

| type | fields |
|---|---|
| `phase` | `phase` (`select`, `propose`, `train`, `evaluate`, `probe`, and from the daemon `publish`), `detail` |
| `selected` | `turns`, `new`, `skipped` {reason: count}, `records` [receipts] |
| `note` | `text` |
| `trainer` | `pid`: the leader of the trainer's process group |
| `step` | `step`, `steps`, `loss`, `tokens_per_s`, and the objective's metrics |
| `trained` | `steps`, `stopped` (`done`, `time`), `loss`, `tokens`, `seconds` |
| `candidate` | `hints`, `lora` (path or null), `lora_id` |
| `task` | `split` (`held-in`, `held-out`, `sealed`), `task`, `before`, `after` (scores; -1: failed), `done`, `total`, `reply` |
| `probe` | `before`, `after` (mean token loss, nats), `rise` (.05: five percent) |
| `answer` | `prompt`, `before`, `after` |
| `decision` | `verdict` (`promoted`, `held`, `rejected`), `sentence`, `statistics` |
| `result` | `verdict` (also `nothing`), `sentence`, `change` |
| `failed` | `message`, `hint`, `code` |
| `heartbeat` | not kept |
| `ended` | from the daemon, the last: `status` (`done`, `failed`, `cancelled`), `verdict`, `sentence`, `release_id` or null, `error` |
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

    def pass_on(self, event: JSONObject) -> None:
        """An event that is complete already, such as the trainer's."""
        self._send(event)

    def phase(self, name: str, detail: str = "") -> None:
        """A part of the run begins: `select`, `propose`, `train`, `evaluate`, `decide`."""
        self.emit("phase", phase=name, detail=detail)

    def note(self, text: str) -> None:
        """A sentence worth showing: what was skipped and why."""
        self.emit("note", text=text)

    def step(self, step: int, steps: int, loss: float, **more: JSON) -> None:
        """One training step of `steps`; `loss` in nats a token."""
        self.emit("step", step=step, steps=steps, loss=loss, **more)
