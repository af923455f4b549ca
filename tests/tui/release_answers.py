"""What the daemon of the releases tests answers: a chain with every kind of release, and a comparison with everything that can differ."""

from __future__ import annotations

from daemon.records import JSON, JSONObject
from tests.tui.fake_daemon import NOW, Answer

BASE = "/reef/scenarios/default"
RULE = "Run the tests before you say that it works"


def evaluation(before: int, after: int, wins: int, losses: int, p: float | None, tokens: tuple[int, int] = (52_000, 47_840)) -> JSONObject:
    return {
        "held_out_before": before / 80,
        "held_out_after": after / 80,
        "tasks": 80,
        "wins": wins,
        "losses": losses,
        "ties": 80 - wins - losses,
        "p": p,
        "probe_rise": 0.004,
        "details": {"tokens_before": tokens[0], "tokens_after": tokens[1]},
    }


def item(number: int, change: str, hours: float, operation: str = "training", **more: JSON) -> JSONObject:
    """One release of the list."""
    shown = more.get("evaluation")
    parts: list[JSON] = [{"text": change, "weight": 9}]
    if isinstance(shown, dict):
        counts = tuple(round(80 * float(str(shown[name]))) for name in ("held_out_before", "held_out_after"))
        parts += [{"text": f"held-out {counts[0]}→{counts[1]} of 80", "weight": 8}]
        parts += [{"text": f"(+{shown['wins']} −{shown['losses']})", "weight": 5}, {"text": "tokens −8 %", "weight": 4}]
    line = "".join(
        (" " if str(part["text"]).startswith("(") else " · " if index else "") + str(part["text"])
        for index, part in enumerate(parts)
        if isinstance(part, dict)
    )
    return {
        "release_id": f"r{number}",
        "parent_release_id": f"r{number - 1}" if number > 1 else None,
        "operation": operation,
        "state": "published",
        "pending": False,
        "current": False,
        "recorded_at": NOW - 3600 * hours,
        "change": change,
        "line": line,
        "parts": parts,
        "recipe": "sft" if operation == "training" else None,
        "run_id": f"run_{number:04}" if operation == "training" else None,
        "restores": None,
        "verdict": "",
        "who": "owner",
        "pinned": False,
        "aged": False,
        "promoted_as": None,
        "weights_collected": False,
        "evaluation": None,
        **more,
    }


def chain() -> list[JSONObject]:
    """Newest first. r14 serves; r15 is held, r13 held and aged; r9 was promoted as r10; r7 was rejected; r5 is pinned."""
    return [
        item(
            15,
            "LoRA r16 (9.4 MB)",
            0.2,
            state="held",
            pending=True,
            parent_release_id="r14",
            evaluation=evaluation(68, 70, 3, 1, 0.31),
            verdict="held: 3 wins and 1 loss may be luck (p .31); about 20 more tasks would decide",
        ),
        item(
            14,
            "+2 rules −1 skill",
            2,
            current=True,
            parent_release_id="r12",
            evaluation=evaluation(61, 68, 9, 2, 0.033),
            verdict="promoted: 9 wins against 2 losses would be luck in 3 of 100 cases",
        ),
        item(
            13,
            "+8 demonstrations",
            3,
            state="held",
            pending=True,
            aged=True,
            recipe="demos",
            parent_release_id="r12",
            evaluation=evaluation(61, 63, 4, 2, 0.34),
            verdict="held: 4 wins and 2 losses may be luck (p .34)",
        ),
        item(12, "back to r10: −1 rule · LoRA taken off", 5, "rollback", restores="r10"),
        item(11, "+1 rule · LoRA r8 (4.7 MB)", 20, evaluation=evaluation(61, 60, 4, 5, 0.75), verdict="promoted by owner"),
        item(10, "+1 prompt", 26, "promote", restores="r9", recipe="sft", evaluation=evaluation(58, 61, 5, 2, 0.23)),
        item(9, "+1 prompt", 27, state="promoted", promoted_as="r10", parent_release_id="r8", evaluation=evaluation(58, 61, 5, 2, 0.23)),
        item(8, "agent settings", 30, "recovery"),
        item(
            7,
            "LoRA r32 (18.8 MB)",
            31,
            state="rejected",
            parent_release_id="r6",
            evaluation=evaluation(58, 41, 2, 19, 1.0),
            verdict="rejected: 19 losses against 2 wins",
        ),
        *(_old(number) for number in (6, 5, 4, 3, 2)),
        item(1, "the base model, without LoRA or harness", 24 * 9, "creation", parent_release_id=None),
    ]


def _old(number: int) -> JSONObject:
    return item(
        number, f"+{number} rules", 24 * (9 - number), pinned=number == 5, evaluation=evaluation(40 + number, 44 + number, 6, 2, 0.14)
    )


def page(releases: list[JSONObject] | None = None) -> JSONObject:
    found: list[JSON] = [*(chain() if releases is None else releases)]
    return {"releases": found, "next": None}


def detail(release_id: str = "r14") -> JSONObject:
    """Everything about one release."""
    found = next(release for release in chain() if release["release_id"] == release_id)
    return {
        **found,
        "recipe": {"name": found["recipe"], "settings": {"batch_size": 8}} if found["recipe"] else None,
        "artifacts": [{"kind": "lora", "content_id": "9f2c", "size_bytes": 9_400_000, "details": {"rank": 16}}],
        "base": {"model": "SmolLM2-135M-Instruct", "quantisation": "Q4_1", "sha256": "ab" * 32},
        "seed": 7,
        "records": [f"rec_{number}" for number in range(12)],
        "commit_id": "3f2a1b9c0d3f2a1b9c0d",
        "files": {"AGENTS.md": "- one\n- two\n- three\n", "prompts/review.md": "Look at the diff.\n"},
        "sizes": {"lora_bytes": 9_400_000, "harness_bytes": 1400, "files": 2},
        "sessions": [
            {"id": "s-1", "title": "Fix the parser's handling of tabs", "receipts": 7, "forgotten": False},
            {"id": "s-2", "title": "Why does the test hang\x1b[31m?", "receipts": 5, "forgotten": False},
        ],
        "records_gone": 0,
        "parents": {"compared_with": "r12", "promotes": None},
        "later": [],
    }


def diff(before: str = "r12", after: str = "r14", *, replies: bool = False) -> JSONObject:
    """Files word by word, LoRA, settings, tasks, and what was answered to each."""
    return {
        "before": before,
        "after": after,
        "line": "+1 rule −1 skill · LoRA r16 (9.4 MB)",
        "same_content": False,
        "files": [
            {
                "path": "AGENTS.md",
                "status": "changed",
                "unified": "",
                "hunks": [
                    {
                        "before_line": 3,
                        "after_line": 3,
                        "lines": [
                            _line("same", 3, 3, ("- Answer in the language of the question.", False)),
                            _line(
                                "removed",
                                4,
                                None,
                                ("- Run ", False),
                                ("some", True),
                                (" tests before you say that it ", False),
                                ("might work", True),
                                (".", False),
                            ),
                            _line(
                                "added",
                                None,
                                4,
                                ("- Run ", False),
                                ("the", True),
                                (" tests before you say that it ", False),
                                ("works", True),
                                (".", False),
                            ),
                            _line(
                                "added",
                                None,
                                5,
                                ("- Name the file and the line when you point at code, so that whoever reads it finds it at once.", True),
                            ),
                        ],
                    }
                ],
            },
            {
                "path": "skills/guess/SKILL.md",
                "status": "removed",
                "unified": "",
                "hunks": [{"before_line": 1, "after_line": 0, "lines": [_line("removed", 1, None, ("Guess when unsure.", True))]}],
            },
        ],
        "lora_before": {
            "id": "a",
            "size_bytes": 4_700_000,
            "rank": 8,
            "alpha": 16,
            "modules": ["q_proj", "v_proj"],
            "norms": {str(n): 0.2 + 0.02 * n for n in range(6)},
        },
        "lora_after": {
            "id": "b",
            "size_bytes": 9_400_000,
            "rank": 16,
            "alpha": 32,
            "modules": ["q_proj", "v_proj"],
            "norms": {str(n): 0.9 - 0.1 * n for n in range(6)},
        },
        "settings": [{"name": "recipe.learning_rate", "before": 0.0001, "after": 0.0002}, {"name": "seed", "before": 3, "after": 7}],
        "evaluation_before": None,
        "evaluation_after": evaluation(61, 68, 9, 2, 0.033),
        "tasks_compared": "together",
        "tasks": {
            "held-in": [],
            "held-out": [
                _task("t1", "Rename the function everywhere it is used", 0, 1, "win", replies),
                _task("t2", "What does this traceback say? [bold]not markup[/bold]", 1, 0, "loss", replies),
                _task("t3", "Write a test for the empty list", 1, 1, "tie", replies),
            ],
            "sealed": [],
        },
        "tally": {"held-out": {"wins": 1, "losses": 1, "ties": 1}},
    }


def why() -> JSONObject:
    sessions: list[JSON] = [{"id": "s-1", "title": "Fix the parser's handling of tabs", "receipts": 7}]
    common: JSONObject = {"path": "AGENTS.md", "line": f"- {RULE}.", "who": "run run_0004", "run_id": "run_0004"}
    return {
        "text": RULE,
        "match": "exact",
        "releases": [
            {
                **common,
                "release_id": "r4",
                "recorded_at": NOW - 432_000,
                "operation": "training",
                "number": 4,
                "event": "brought",
                "reason": "promoted: 6 wins against 2 losses",
                "sessions": sessions,
            },
            {
                **common,
                "release_id": "r8",
                "recorded_at": NOW - 108_000,
                "operation": "recovery",
                "number": None,
                "event": "removed",
                "reason": "",
                "sessions": [],
            },
            {
                **common,
                "release_id": "r14",
                "recorded_at": NOW - 7_200,
                "operation": "training",
                "number": 4,
                "event": "brought back",
                "reason": "",
                "sessions": sessions,
            },
        ],
        "serving": True,
        "nearest": [],
    }


def answers() -> dict[str, Answer]:
    return {
        f"{BASE}/releases": page(),
        **{f"{BASE}/releases/r{number}": detail(f"r{number}") for number in range(1, 16)},
        f"{BASE}/releases/r12/diff/r14": diff(),
        f"{BASE}/releases/r12/diff/r14?replies=1": diff(replies=True),
        f"{BASE}/why": why(),
    }


def _line(kind: str, before: int | None, after: int | None, *segments: tuple[str, bool]) -> JSONObject:
    return {"kind": kind, "before": before, "after": after, "segments": [[text, changed] for text, changed in segments]}


def _task(task: str, prompt: str, before: float, after: float, outcome: str, with_replies: bool) -> JSONObject:
    replies: JSONObject = {"reply_before": "I think it is done.", "reply_after": "Renamed in 3 files:\nparser.py, lexer.py, cli.py"}
    return {
        "task": task,
        "prompt": prompt,
        "before": before,
        "after": after,
        "outcome": outcome,
        "tokens_before": 80,
        "tokens_after": 70,
        **(replies if with_replies else {}),
    }
