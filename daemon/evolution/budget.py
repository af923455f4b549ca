"""What learning may still spend at the teacher today. Kept in the home, so that it holds across runs and restarts."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.errors import Busy, Unsupported
from daemon.files import write_atomic
from daemon.records import Usage


class _Spent(BaseModel):
    """The content of the file. `day` in local time, such as 2026-05-31."""

    model_config = ConfigDict(extra="ignore")

    day: str = ""
    tokens: int = 0
    cost: float = 0.0


class Budget:
    """Limits of one day. Runs come one at a time, so nobody else writes the file meanwhile."""

    def __init__(self, path: Path, *, tokens_per_day: int | None = None, cost_per_day: float | None = None) -> None:
        """
        Args:
            path: where it is noted what was spent today.
            cost_per_day: in the currency that the server states its costs in; None: no limit.
        """
        self._path = path
        self._tokens_per_day = tokens_per_day
        self._cost_per_day = cost_per_day

    def check(self) -> None:
        """Raises Busy once nothing is left for today."""
        spent = self._spent()
        if self._tokens_per_day is not None and spent.tokens >= self._tokens_per_day:
            raise Busy("The teacher's tokens for today are spent.", "Raise teacher.tokens_per_day or wait until tomorrow.")
        if self._cost_per_day is not None and spent.cost >= self._cost_per_day:
            raise Busy("The teacher's money for today is spent.", "Raise teacher.cost_per_day or wait until tomorrow.")

    def spend(self, usage: Usage, cost: float | None) -> None:
        """Note one reply, durably.

        Raises:
            Unsupported: there is a limit of cost, and the server does not state what the reply has cost. StorageError.
        """
        spent = self._spent()
        spent.tokens += usage.prompt_tokens + usage.completion_tokens
        spent.cost += cost or 0.0
        write_atomic(self._path, spent.model_dump_json() + "\n", 0o600)
        if self._cost_per_day is not None and cost is None:
            raise Unsupported("The teacher does not state what a reply costs (usage.cost).", "Use teacher.tokens_per_day instead.")

    def _spent(self) -> _Spent:
        today = time.strftime("%Y-%m-%d")
        try:
            spent = _Spent.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            spent = _Spent()
        return spent if spent.day == today else _Spent(day=today)
