"""Canned runs for tests of the tab `Runs`."""

from __future__ import annotations

import math

from daemon.records import JSON, JSONObject
from tests.tui.fake_daemon import NOW, Answer

BASE = "/reef/scenarios/default/runs"


def run(
    run_id: str, recipe: str, age_s: float, verdict: str = "", sentence: str = "", release: str | None = None, **more: JSON
) -> JSONObject:
    is_over = bool(verdict) or "status" in more
    return {
        "run_id": run_id,
        "id": run_id,
        "scenario": "default",
        "recipe": recipe,
        "status": "done" if is_over else "running",
        "phase": "publish" if is_over else "evaluate",
        "started_at": NOW - age_s,
        "ended_at": NOW - age_s + 190 if is_over else None,
        "verdict": verdict,
        "sentence": sentence,
        "release_id": release,
        "trigger": "schedule",
        "config": {"settings": {}, "dry_run": False, "seed": 7, "release": "r14"},
        "error": "",
        **more,
    }


RUNS: list[JSONObject] = [
    run("run_now", "sft", 207, trigger="owner"),
    run("run_won", "sft", 7200, "promoted", "better on the held-out tasks: 9 wins, 2 losses, 69 ties (p .033)", "r14"),
    run("run_held", "demos", 10_000, "held", "not enough evidence: 3 wins, 1 loss, 16 ties; 12 more tasks would decide", "r13"),
    run("run_lost", "sft", 90_000, "rejected", "worse on the held-in tasks: 1 win, 4 losses, 15 ties", "r12"),
    run("run_none", "demos", 95_000, "nothing", "no new experience since r11"),
    run(
        "run_bad",
        "acme.recipes:Own",
        99_000,
        status="failed",
        sentence="There is no recipe named 'acme'.",
        error="There is no recipe named 'acme'.",
    ),
    run("run_off", "sft", 200_000, status="cancelled", sentence="cancelled", trigger="owner"),
]

TASKS = ("rename-branch", "explain-diff", "commit-message", "fix-divide", "undo-merge", "squash-last", "find-todo", "bisect")


def tasks(split: str, outcomes: str, total: int) -> list[JSONObject]:
    """One event a sign of `outcomes`: + won, - lost, = as before."""
    scores = {"+": (0.0, 1.0), "-": (1.0, 0.0), "=": (1.0, 1.0)}
    found: list[JSONObject] = []
    for number, sign in enumerate(outcomes):
        before, after = scores[sign]
        name = f"{TASKS[number % len(TASKS)]}-{number // len(TASKS) + 1}"
        found.append(
            {
                "type": "task",
                "split": split,
                "task": name,
                "before": before,
                "after": after,
                "done": number + 1,
                "total": total,
                "reply": f"git branch -m old new   # the answer to {name}",
            }
        )
    return found


def step(number: int) -> JSONObject:
    loss = 0.62 + 1.9 * math.exp(-number / 14) + 0.06 * math.sin(number)
    return {"type": "step", "step": number, "steps": 64, "loss": loss, "tokens_per_s": 812.0}


def started() -> list[JSONObject]:
    """Up to the training's 41st step of 64."""
    return [
        {"type": "phase", "phase": "select", "detail": "recipe sft", "at": NOW - 207},
        {"type": "selected", "turns": 24, "new": 9, "skipped": {"without a score": 31, "too long": 2}, "records": []},
        {"type": "phase", "phase": "propose", "detail": "from 24 exchanges", "at": NOW - 206.6},
        {"type": "note", "text": "2 replies were corrected: the corrections are learned, not the replies."},
        {"type": "phase", "phase": "train", "detail": "24 samples, 64 steps", "at": NOW - 205},
        *(step(number) for number in range(1, 42)),
    ]


def evaluated() -> list[JSONObject]:
    """The rest of the training, and the evaluation up to its 31st held-out task."""
    return [
        *(step(number) for number in range(42, 65)),
        {"type": "trained", "steps": 64, "stopped": "done", "loss": 0.66, "tokens": 48_211, "seconds": 130.0},
        {"type": "phase", "phase": "evaluate", "detail": "20 held-in and 80 held-out tasks", "at": NOW - 60},
        *tasks("held-in", "==+==+===-====+==+==", 20),
        {"type": "phase", "phase": "probe", "detail": "the loss of general text, before and after", "at": NOW - 40},
        {"type": "probe", "before": 3.118, "after": 3.143, "rise": 0.008},
        *tasks("held-out", "=+==+====-==+==+=-====+==+=====", 80),
    ]


def decided() -> list[JSONObject]:
    """The end of a run that is promoted."""
    facts: JSONObject = {
        "gate": "paired",
        "held_in": {"wins": 4, "losses": 1, "ties": 15, "delta": 0.15},
        "held_out": {"wins": 9, "losses": 2, "ties": 69, "delta": 0.09},
        "p": 0.0327,
        "level": 0.0608,
        "look": 2,
        "probe_rise": 0.008,
        "probe_max_rise": 0.05,
    }
    sentence = "better on the held-out tasks: 9 wins, 2 losses, 69 ties (p .033)"
    return [
        *tasks("held-out", "=====+===+==+====================================", 80),
        {
            "type": "answer",
            "prompt": "Name three rivers.",
            "before": "The Nile, the Rhine and the Amur.",
            "after": "The Nile, the Rhine and the Amur.",
        },
        {"type": "answer", "prompt": "What is 7 times 8?", "before": "56", "after": "It is 56."},
        {"type": "decision", "verdict": "promoted", "sentence": sentence, "statistics": facts},
        {"type": "result", "verdict": "promoted", "sentence": sentence, "change": "LoRA r8 trained on 24 exchanges"},
        {"type": "phase", "phase": "publish", "detail": "promoted", "at": NOW - 2},
        {"type": "ended", "status": "done", "verdict": "promoted", "sentence": sentence, "release_id": "r15", "at": NOW},
    ]


def timed(events: list[JSONObject]) -> list[JSONObject]:
    """As the daemon stamps them."""
    return [{"at": NOW - 1, **event} for event in events]


def answers(runs: list[JSONObject] | None = None) -> dict[str, Answer]:
    listed = RUNS if runs is None else runs

    def pages(query: JSONObject) -> JSONObject:
        limit, before = int(str(query.get("limit", 20))), query.get("before")
        found = [one for one in listed if before is None or float(str(one["started_at"])) < float(str(before))][:limit]
        return {"runs": list(found), "next": found[-1]["started_at"] if len(found) == limit else None}

    return {
        BASE: pages,
        "/reef/recipes": {
            "recipes": [
                {"name": "demos", "path": "recipes.demos.recipe:DemosRecipe"},
                {"name": "sft", "path": "recipes.sft.recipe:SFTRecipe"},
            ]
        },
    }


def streams() -> dict[str, list[JSONObject]]:
    return {
        f"{BASE}/run_now/events": timed([*started(), *evaluated()]),
        f"{BASE}/run_won/events": timed([*started(), *evaluated(), *decided()]),
    }
