"""What a person reads of releases in a terminal."""

from __future__ import annotations

import os
import sys

import pytest

from daemon.records import JSONObject
from reef_cli import change_line

from .conftest import StandIn

LIST = "GET /reef/scenarios/default/releases"


def item(release_id: str, *texts: str, **more: object) -> JSONObject:
    parts = [{"text": text, "weight": 9 - number} for number, text in enumerate(texts)]
    fields: dict[str, object] = {"release_id": release_id, "operation": "training", "recipe": "ace", "recorded_at": 0, "parts": parts}
    return fields | more  # type: ignore[return-value]


RELEASES: JSONObject = {
    "releases": [
        item("r5", "LoRA r16 (9.4 MB)", pending=True, aged=True, state="held"),
        item("r4", "+8 demonstrations", "held-out 0→8 of 20", "(+8 −0, p .004)", "tokens +3 %", current=True, pinned=True),
        item("r3", "+8 demonstrations", state="promoted", promoted_as="r4"),
        item("r2", "LoRA", state="rejected"),
        item("r1", "the base model, without LoRA or harness", operation="creation", recipe=None, weights_collected=True),
    ],
    "next": None,
}


def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback=(80, 24): os.terminal_size((columns, 24)))
    monkeypatch.setenv("NO_COLOR", "1")


def test_the_list_says_what_changed_and_how_each_release_stands(reef, daemon: StandIn) -> None:
    daemon.answer(LIST, RELEASES)
    lines = reef("releases").out.splitlines()
    assert "○ held, aged" in lines[1]
    assert "+8 demonstrations · held-out 0→8 of 20 (+8 −0, p .004) · tokens +3 %" in lines[2]
    assert "● serving ◆ pinned" in lines[2] and "ace" in lines[2]
    assert "↑ promoted as r4" in lines[3] and "× rejected" in lines[4]
    assert "creation" in lines[5] and "weights collected" in lines[5]
    assert len(lines) == 6


def test_a_longer_list_names_the_command_for_the_next_page(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/scenarios/pi/releases", {**RELEASES, "next": "r80"})
    assert "reef releases -s pi --before r80" in reef("releases", "-s", "pi", "--before", "r99").out
    assert "before=r99" in daemon.asked[-1][1]
    daemon.answer(LIST, {"releases": [], "next": None})
    assert "has no release before r1." in reef("releases", "--before", "r1").out


def test_at_80_columns_what_matters_least_is_left_out_and_the_state_is_not(reef, daemon: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.answer(LIST, {"releases": [RELEASES["releases"][1]], "next": None})  # type: ignore[index]
    terminal(monkeypatch, 80)
    line = reef("releases").out.splitlines()[1]
    assert len(line) <= 80 and "● serving ◆ pinned" in line
    assert "+8 demonstrations" in line and "tokens" not in line


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (None, "a · b (c) · d"),
        (13, "a · b (c) · d"),
        (12, "a · b (c)"),
        (8, "a · b"),
        (4, "a"),
        (1, "a"),
        (0, "…"),
    ],
)
def test_a_line_is_shortened_part_by_part(width: int | None, line: str) -> None:
    assert change_line.fit([("a", 9), ("b", 8), ("(c)", 5), ("d", 3)], width) == line


def test_of_equals_the_last_is_left_out_first() -> None:
    assert change_line.fit([("a", 9), ("b", 6), ("c", 6)], 5) == "a · b"


def test_one_long_part_is_cut_and_says_so() -> None:
    assert change_line.line({"parts": [{"text": "many words\x1b[31m here", "weight": 9}]}, 12) == "many words …"
    assert change_line.line({"change": "as an older daemon says it"}) == "as an older daemon says it"


SHOWN: JSONObject = {
    **item("r14", "+2 rules", "held-out 1→2 of 3", "(+1 −0, p .5)"),
    "current": True,
    "pinned": True,
    "state": "published",
    "verdict": "promoted: better on the held-out tasks: 1 win, 0 losses, 2 ties (p .5)",
    "parent_release_id": "r13",
    "who": "run run_1",
    "run_id": "run_1",
    "seed": 7,
    "run": {"trigger": "schedule", "started_at": 100.0, "ended_at": 400.0},
    "recipe": {"name": "ace", "settings": {"rounds": 3}},
    "base": {"model": "smol", "quantisation": "Q4_1", "sha256": "ab" * 32},
    "artifacts": [{"kind": "lora", "size_bytes": 9_400_000, "content_id": "cd" * 32, "details": {"rank": 16, "modules": ["q_proj"]}}],
    "files": {"AGENTS.md": "- Be brief.\x1b[2J\n- Run the tests.\n"},
    "records": ["rec_1", "rec_2", "rec_3"],
    "records_gone": 1,
    "sessions": [{"id": "ses_1", "title": "How do I run the tests?\x07", "receipts": 2}],
    "commit_id": "ef" * 20,
    "later": ["r16"],
    "mutations": [
        {
            "kind": "update",
            "entry": "AGENTS.md#testing",
            "reason": "it failed\x07 twice",
            "author": "ace",
            "sessions": ["s1", "s2", "s3", "s4"],
        },
        {"kind": "remove", "entry": "skills/guess/SKILL.md", "reason": "", "author": "", "sessions": []},
    ],
    "tasks": {
        "reason": "Replies that the user corrected.",
        "statistics": {"p": 0.5, "level": 0.06, "look": 2, "probe_rise": 0.012, "probe_max_rise": 0.05, "more_tasks": 4},
        "tasks": {
            "held-out": [
                {
                    "task": "h1",
                    "prompt": "Say yes",
                    "before": {"score": 0, "reply": "no", "completion_tokens": 10},
                    "after": {"score": 1, "reply": "yes", "completion_tokens": 5},
                },
                {"task": "h2", "before": {"score": 1, "reply": "a"}, "after": {"score": 1, "reply": "a"}},
                {"task": "h3", "before": {"score": -1}, "after": {"score": 0}},
            ],
            "sealed": [],
        },
    },
}


def test_show_is_a_page_about_a_release(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/scenarios/default/releases/r14", SHOWN)
    out = reef("show", "r14").out
    for part in (
        "r14 · ● serving · ◆ pinned",
        "+2 rules · held-out 1→2 of 3 (+1 −0, p .5)",
        "promoted: better on the held-out tasks",
        "because of replies that the user corrected",
        "by the recipe ace on r13",
        "~ AGENTS.md#testing  because: it failed  twice · by ace, from s1, s2, s3 and 1 more",
        "− skills/guess/SKILL.md\n",
        "run_1 · started by schedule · took 5 min · seed 7",
        "held-out  1 → 2 of 3: 2 wins, 0 losses, 1 tie · tokens −50 %",
        "luck alone would do at least as well with probability .5",
        "look 2 at these tasks",
        "rose by 1.2 %; at most 5 % is allowed",
        "4 more tasks of this kind would decide",
        "3 records of 1 session",
        "ses_1  2 turns  How do I run the tests?",
        "1 record no longer stored",
        "rank 16 · 9.4 MB · of q_proj",
        "AGENTS.md  33 B",
        "smol · Q4_1",
        "rounds 3",
        "ef" * 20,
        "r16 brought its content back",
        "reef diff r13 r14",
    ):
        assert part in out
    assert "\x07" not in out and "\x1b" not in out and "Be brief" not in out
    assert "asked for by" not in out, "the run has its own line"
    assert "reef rollback" not in out, "it serves already"
    assert "  - Be brief.�[2J" in reef("show", "r14", "--files").out
    assert '"reply": "yes"' in reef("show", "r14", "--json").out
    assert "Look again." in reef("show", "../r9").err


@pytest.mark.parametrize(("who", "said"), [("daemon", False), ("run run_1", False), ("", False), ("owner", True)])
def test_a_release_is_asked_for_by_people_alone(reef, daemon: StandIn, who: str, said: bool) -> None:
    daemon.answer("GET /reef/scenarios/default/releases/r1", item("r1", "the base model", operation="creation", recipe=None, who=who))
    assert ("(asked for by owner)" in reef("show", "r1").out) is said
    assert said or "asked for" not in reef("show", "r1").out


def test_a_page_keeps_within_the_terminal(reef, daemon: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.answer("GET /reef/scenarios/default/releases/r14", SHOWN)
    terminal(monkeypatch, 60)
    assert max(len(line) for line in reef("show", "r14").out.splitlines()[:-1]) <= 60


def line(kind: str, *segments: tuple[str, bool]) -> JSONObject:
    return {"kind": kind, "segments": [list(one) for one in segments]}


COMPARED: JSONObject = {
    "before": "r1",
    "after": "r2",
    "line": "1 rule edited · LoRA r16 (9.4 MB)",
    "files": [
        {
            "path": "AGENTS.md",
            "status": "changed",
            "hunks": [
                {
                    "after_line": 3,
                    "lines": [
                        line("same", ("- a", False)),
                        line("removed", ("- Be ", False), ("brief\x07", True)),
                        line("added", ("- Be ", False), ("kind", True)),
                        line("added", ("- new", True)),
                    ],
                }
            ],
        }
    ],
    "lora_before": None,
    "lora_after": {"id": "abcdef0123456789", "size_bytes": 9_400_000, "rank": 16, "modules": ["q", "v"], "norms": {"2": 0.5, "10": 0.25}},
    "settings": [{"name": "engine.context", "before": 4096, "after": 8192}],
    "tasks_compared": "apart",
    "tasks": {
        "held-out": [
            {
                "task": "h1",
                "prompt": "Say yes",
                "before": 0,
                "after": 1,
                "outcome": "win",
                "tokens_before": 100,
                "tokens_after": 80,
                "reply_before": "no",
                "reply_after": "yes\x07\nsurely",
            },
            {"task": "h2", "prompt": "Say no", "before": 1, "after": -1, "outcome": "loss", "tokens_before": 100, "tokens_after": 80},
            {"task": "h3", "prompt": "Same", "before": 1, "after": 1, "outcome": "tie", "tokens_before": 100, "tokens_after": 80},
        ]
    },
}


def test_diff_marks_words_and_draws_layers_and_names_tasks(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/scenarios/default/releases/r1/diff/head", COMPARED)
    out = reef("diff", "r1", "head").out
    for part in (
        "r1 → r2  1 rule edited · LoRA r16 (9.4 MB)",
        "changed AGENTS.md",
        "  - - Be [-brief -]",
        "  + - Be {+kind+}",
        "  + - new",
        "9.4 MB",
        "q, v",
        "████████████████████ 0.5",
        "engine.context",
        "8192",
        "held-out  2 → 2 of 3: 1 win, 1 loss, 1 tie · tokens −20 %",
        "+−·",
        "r1 and r2 were never played against each other",
        "+ 0 → 1       h1  Say yes",
        "− 1 → failed  h2  Say no",
        "= 1 held-out tie",
    ):
        assert part in out
    assert "\x07" not in out and "surely" not in out
    assert out.index("layer 2 ") < out.index("layer 10 ")
    assert daemon.asked[-1][1].endswith("/head")
    whole = reef("diff", "r1", "head", "--tasks").out
    assert "surely" in whole and "h3  Same" in whole and "(no reply)" in whole and "\x07" not in whole
    assert daemon.asked[-1][1].endswith("?replies=1")


def test_with_colour_the_words_are_told_apart_by_more_than_colour(reef, daemon: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.answer("GET /reef/scenarios/default/releases/r1/diff/head", COMPARED)
    terminal(monkeypatch, 100)
    monkeypatch.delenv("NO_COLOR")
    out = reef("diff", "r1", "head").out
    assert "\x1b[32m  + \x1b[0m\x1b[32m- Be \x1b[0m\x1b[32;7mkind\x1b[0m" in out
    assert "{+" not in out


def test_two_of_the_same_content_are_said_to_be_that(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/scenarios/default/releases/r1/diff/r3", {"before": "r1", "after": "r3", "same_content": True})
    assert reef("diff", "r1", "r3").out == "r1 and r3 serve the same content.\n"


def event(release_id: str, what: str, **more: object) -> JSONObject:
    fields: dict[str, object] = {"release_id": release_id, "event": what, "state": "published", "operation": "training", "recorded_at": 0}
    fields |= {"path": "AGENTS.md", "line": "- Be brief.\x07", "number": 3, "change": "+1 rule", "sessions": []}
    return fields | more  # type: ignore[return-value]


def test_why_tells_the_story_of_a_line(reef, daemon: StandIn) -> None:
    sessions = [{"id": f"ses_{number}", "title": "How?"} for number in range(5)]
    found = [event("r2", "brought", recipe="ace", sessions=sessions, run_id="run_1"), event("r4", "removed", operation="rollback")]
    found[0] |= {"reason": "it was \x07long", "author": "ace", "evidence": ["ses_0"]}
    daemon.answer("GET /reef/scenarios/default/why", {"match": "exact", "releases": found, "serving": False, "nearest": []})
    out = reef("why", "be brief").out
    for part in (
        "+ r2 brought by ace",
        "AGENTS.md:3  - Be brief.",
        "because: it was  long · by ace, from ses_0",
        "from session ses_0  How?",
        "and 2 more (reef show r2)",
        "in run run_1",
        "− r4 removed by rollback",
        "What serves now does not hold it.",
    ):
        assert part in out
    assert "\x07" not in out
    assert "text=be+brief" in daemon.asked[-1][1]


def test_why_says_when_a_line_is_only_like_another_or_there_is_none(reef, daemon: StandIn) -> None:
    near = [{"path": "AGENTS.md", "line": "- Be brief.", "release_id": "r2", "likeness": 0.8}]
    path = "GET /reef/scenarios/default/why"
    daemon.answer(path, {"match": "near", "releases": [event("r2", "brought")], "serving": True, "nearest": near})
    assert reef("why", "Be very brief").out.startswith("No release holds these words. The nearest line is:\n  AGENTS.md  - Be brief.\n")
    daemon.answer(path, {"match": "none", "releases": [], "serving": False, "nearest": near})
    result = reef("why", "something else")
    assert result.code == 1, "as grep says it"
    assert "No release of 'default' holds these words." in result.out and "r2   AGENTS.md  - Be brief." in result.out
    assert "reef show head --files" in result.out
    assert reef("why", "something else", "--json").code == 1
    daemon.answer(path, {"match": "none", "releases": [], "serving": False, "nearest": []})
    assert reef("why", "lora").out == "No release of 'default' has had a LoRA.\n  Learn one: reef evolve --recipe sft\n"
