"""What a teacher may cost is a limit of the day, not of a run."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from daemon.errors import Busy, Unsupported
from daemon.evolution import budget as budgets
from daemon.evolution.budget import Budget
from daemon.evolution.model_client import ModelClient


def teacher(budget: Budget, cost: float | None = None) -> ModelClient:
    """Each reply takes ten tokens."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, **({"cost": cost} if cost is not None else {})}
    reply = {"choices": [{"message": {"role": "assistant", "content": "yes"}}], "usage": usage}
    http = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200, json=reply)), base_url="http://teacher/v1/")
    return ModelClient(http, "", "", model="big", budget=budget)


def ask(model: ModelClient) -> str:
    return model.chat([{"role": "user", "content": "well?"}]).text


def test_tokens_are_counted_across_runs_and_again_from_zero_tomorrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spent.json"
    assert ask(teacher(Budget(path, tokens_per_day=20))) == "yes"
    second = teacher(Budget(path, tokens_per_day=20))  # another run of the same day
    assert ask(second.at("base")) == "yes"
    with pytest.raises(Busy, match="for today are spent"):
        ask(second)
    assert path.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(budgets.time, "strftime", lambda form: "2999-01-01")
    assert ask(second) == "yes"


def test_a_limit_of_cost_holds_where_the_server_states_costs_and_is_refused_where_not(tmp_path: Path) -> None:
    budget = Budget(tmp_path / "spent.json", cost_per_day=0.3)
    ask(teacher(budget, cost=0.2))
    ask(teacher(budget, cost=0.2))
    with pytest.raises(Busy, match="money for today is spent"):
        ask(teacher(budget, cost=0.2))
    with pytest.raises(Unsupported, match="does not state what a reply costs"):
        ask(teacher(Budget(tmp_path / "other.json", cost_per_day=0.3)))
