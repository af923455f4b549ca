"""Canned sessions for tests of the tab `Sessions`."""

from __future__ import annotations

from daemon.records import JSON, JSONObject
from tests.tui.fake_daemon import NOW, Answer

BASE = "/reef/scenarios/default/sessions"


def summary(session: str, title: str, age_s: float, turns: int = 1, **more: JSON) -> JSONObject:
    return {
        "id": session,
        "scenario": "default",
        "title": title,
        "created_at": NOW - age_s - 600,
        "updated_at": NOW - age_s,
        "turns": turns,
        "asides": 0,
        "reports": 0,
        "releases": ["r14"],
        "last_receipt": f"rec_{session}",
        "last_sequence": int(NOW - age_s),
        "snippet": "",
        "live": False,
        "answering": False,
        "keeps": None,
        **more,
    }


def turn(receipt: str, added: list[JSON], reply: JSONObject, age_s: float, **more: JSON) -> JSONObject:
    return {
        "receipt": receipt,
        "session": "ses_calc",
        "created_at": NOW - age_s,
        "release_id": "r14",
        "kind": "turn",
        "status": "ok",
        "finish_reason": "stop",
        "error": "",
        "note": "",
        "cache_miss": "",
        "reply": {"role": "assistant", **reply},
        "usage": {"prompt_tokens": 1840, "completion_tokens": 212, "cached_tokens": 1710},
        "total_ms": 2100.0,
        "step": "continue",
        "follows": None,
        "line": 0,
        "added": added,
        "signals": [],
        "retries": 0,
        "reports": [],
        "number": int(receipt[-1]) if receipt[-1].isdigit() else None,
        **more,
    }


def call(name: str, arguments: str, identity: str) -> JSONObject:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = "You are pi, a coding agent in a terminal.\nRead before you write.\nRun the tests after each change.\nAnswer in few words."
PYTEST = "\n".join(
    [
        "============================= test session starts =============================",
        "collected 14 items",
        "",
        "tests/test_calc.py .....F........                                        [100%]",
        "",
        "=================================== FAILURES ===================================",
        "    def test_divide_by_zero():",
        "        with pytest.raises(CalcError):",
        ">           calc.divide(1, 0)",
        "E           ZeroDivisionError: division by zero",
        "========================= 1 failed, 13 passed in 0.21s =========================",
    ]
)
THOUGHTS = (
    "The user wants the failing test fixed. I do not know yet which one fails, so I run the suite first.\n"
    "Then I read calc.py.\nThe rule says to read before I write."
)

TURNS: list[JSONObject] = [
    turn(
        "rec_1",
        [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": "The divide test fails since yesterday. Fix it, and keep the public API."},
        ],
        {
            "content": "I run the suite first.",
            "reasoning_content": THOUGHTS,
            "tool_calls": [call("bash", '{"command": "pytest -q"}', "c1")],
        },
        600,
        step="begin",
        signals=["tests_failed"],
        finish_reason="tool_calls",
    ),
    turn(
        "rec_2",
        [{"role": "tool", "tool_call_id": "c1", "content": PYTEST}],
        {
            "content": "",
            "tool_calls": [
                call(
                    "edit", '{"path": "calc.py", "old": "return a / b", "new": "if b == 0:\\n    raise CalcError(a)\\nreturn a / b"}', "c2"
                )
            ],
        },
        590,
        finish_reason="tool_calls",
        signals=["tests_mended"],
    ),
    turn(
        "rec_title",
        [],
        {"content": "Fix the divide test"},
        585,
        kind="aside",
    ),
    turn(
        "rec_3",
        [{"role": "tool", "tool_call_id": "c2", "content": "1 replacement in calc.py"}],
        {"content": "`divide` raises CalcError for a zero divisor; the suite passes:\n\n- calc.py: one check\n- the API is unchanged"},
        580,
        signals=["objected"],
        reports=[{"agent_record_id": "rep_1", "score": 1.0, "feedback": {"note": "short, and it ran the tests"}}],
    ),
    turn(
        "rec_4",
        [{"role": "user", "content": "no, CalcError should say which operation it was"}],
        {"content": "Then it takes the name of the operation: `raise CalcError('divide', a)`."},
        120,
        release_id="r15",
        step="branch",
        follows="rec_3",
        line=1,
    ),
]

SESSIONS: list[JSONObject] = [
    summary("ses_now", "Write a commit message for the staged diff", 4, 2, live=True, answering=True, keeps="r14"),
    summary(
        "ses_calc",
        "The divide test fails since yesterday. Fix it, and keep the public API.",
        120,
        4,
        asides=1,
        reports=1,
        releases=["r14", "r15"],
        live=True,
        keeps="r15",
    ),
    summary("ses_wide", "把这个函数翻译成 Rust，并解释所有权", 3000, 7, releases=["r13"]),
    summary("ses_bad", "[bold red]not markup[/] \x1b[31mnot red\x1b[0m", 9000, 3, releases=["r11", "r12", "r13"], reports=3),
    *(
        summary(f"ses_{number}", f"How do I rename a branch that others use? ({number})", 86_400 + 3600 * number, 1 + number % 9)
        for number in range(20)
    ),
]


def answers(sessions: list[JSONObject] | None = None, turns: list[JSONObject] | None = None) -> dict[str, Answer]:
    """Lists and shows them as the daemon does."""
    listed, said = SESSIONS if sessions is None else sessions, TURNS if turns is None else turns

    def pages(query: JSONObject) -> JSONObject:
        limit, before, words = int(str(query.get("limit", 50))), query.get("before"), str(query.get("q", "")).lower()
        found = [one for one in listed if words in str(one["title"]).lower()]
        found = [one for one in found if before is None or int(str(one["last_sequence"])) < int(str(before))][:limit]
        return {"sessions": list(found), "next": found[-1]["last_sequence"] if len(found) == limit else None}

    def show(session: JSONObject) -> Answer:
        def part(query: JSONObject) -> JSONObject:
            limit = int(str(query.get("limit", len(said))))
            first = int(str(query["from"])) if "from" in query else max(0, len(said) - limit)
            return {**session, "turns": list(said[first : first + limit]), "first": first, "all": len(said)}

        return part

    return {BASE: pages, **{f"{BASE}/{one['id']}": show(one) for one in listed}}
