"""The tab `Releases`: what is done there, and how two releases are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.pilot import Pilot
from textual.widgets._footer import FooterKey

from daemon.errors import Conflict
from daemon.records import JSON, JSONObject
from reef_cli.client import NeedsYes
from reef_cli.tui.widgets.feed import Feed
from tests.tui.fake_daemon import Answer, FakeDaemon, scenario, status
from tests.tui.looking import LARGE, Snapshots, opened, screen_text, settled, until
from tests.tui.release_answers import BASE, answers, chain, detail, diff, item, page


def _daemon(more: Mapping[str, Answer] | None = None) -> FakeDaemon:
    """r14 serves, with three sessions under way; what differs from it is told as `what r12 holds`."""
    ids = ("r12", "r11", "r15", "r13")
    diffs: dict[str, Answer] = {f"{BASE}/releases/r14/diff/{other}": {**diff("r14", other), "line": f"what {other} holds"} for other in ids}
    return FakeDaemon({**answers(), **diffs, "/reef/status": status([scenario(sessions_under_way=3)]), **(more or {})})


def _moved(daemon: FakeDaemon, made: JSONObject) -> Callable[[JSONObject], JSONObject]:
    """The daemon's answer to a move: the chain has a new head."""

    def answer(body: JSONObject) -> JSONObject:
        before = daemon.answers[f"{BASE}/releases"]
        assert isinstance(before, dict) and isinstance(before["releases"], list)
        old = [{**release, "current": False} for release in before["releases"] if isinstance(release, dict)]
        daemon.answers[f"{BASE}/releases"] = page([made, *old])
        daemon.answers[f"{BASE}/releases/{made['release_id']}"] = made
        return made

    return answer


async def _select(pilot: Pilot[None], release_id: str) -> None:
    pilot.app.query_one(Feed).select(release_id)
    await settled(pilot)


async def test_a_rollback_names_its_effect_and_shows_the_new_head_at_once(snapshots: Snapshots) -> None:
    daemon = _daemon()
    daemon.answers[f"POST {BASE}/rollback"] = _moved(daemon, item(16, "back to r12: what r12 holds", 0, "rollback", current=True))
    async with opened(daemon) as pilot:
        await _select(pilot, "r12")
        await pilot.press("r")
        shown = await until(pilot, "r16 will serve r12's content: what r12 holds.")
        assert "3 sessions stay on r14 until they are idle." in shown
        await snapshots.every_look(pilot, "releases-rollback")
        await pilot.press("n")
        assert not daemon.bodies("POST", f"{BASE}/rollback"), "a no changes nothing"
        await pilot.press("r")
        await until(pilot, "will serve")
        await pilot.press("y")
        shown = await until(pilot, "r16 serves now.")
        assert daemon.bodies("POST", f"{BASE}/rollback") == [{"release_id": "r12", "expected_head": "r14"}]
        assert pilot.app.query_one(Feed).selected == "r16"
        assert next(line for line in shown.splitlines() if "●   r16" in line)


async def test_a_head_that_moved_meanwhile_is_named_and_asked_about_again() -> None:
    daemon = _daemon()
    newer = item(16, "+1 skill", 0, current=True)
    move = _moved(daemon, newer)

    def refuse(body: JSONObject) -> JSONObject:
        if body["expected_head"] == "r14":
            move(body)
            raise Conflict("r16 is the head of default now; you saw r14.", "Look again.")
        return item(17, "back to r12", 0, "rollback", current=True)

    daemon.answers[f"POST {BASE}/rollback"] = refuse
    daemon.answers[f"{BASE}/releases/r16/diff/r12"] = {**diff("r16", "r12"), "line": "−1 skill"}
    async with opened(daemon) as pilot:
        await _select(pilot, "r12")
        await pilot.press("r")
        await until(pilot, "r16 will serve r12's content")
        await pilot.press("y")
        shown = await until(pilot, "r17 will serve r12's content: −1 skill.")
        assert "r16 serves now; you saw r14. Nothing was changed yet." in shown
        await pilot.press("y")
        await until(pilot, "r17 serves now.")
        assert [body["expected_head"] for body in daemon.bodies("POST", f"{BASE}/rollback")] == ["r14", "r16"]


async def test_a_refusal_is_a_sentence_and_what_was_there_stays() -> None:
    daemon = _daemon()
    daemon.answers[f"POST {BASE}/rollback"] = Conflict("r11 does not fit:\n  AGENTS.md:12", "Put back OLD.gguf")
    async with opened(daemon) as pilot:
        await _select(pilot, "r11")
        await pilot.press("r")
        await until(pilot, "what r11 holds")
        await pilot.press("y")
        shown = await until(pilot, "Put back OLD.gguf")
        assert "r11 does not fit:\n" not in shown and "AGENTS.md:12" in shown
        assert "●   r14" in shown


async def test_a_held_candidate_is_dismissed_after_a_question_that_says_it_is_final() -> None:
    daemon = _daemon()
    daemon.answers[f"POST {BASE}/releases/r13/dismiss"] = item(13, "+8 demonstrations", 3, state="rejected")
    async with opened(daemon) as pilot:
        await _select(pilot, "r13")
        assert "x Dismiss" in (await until(pilot, "x Dismiss")).splitlines()[-1]
        await pilot.press("x")
        await until(pilot, "This cannot be undone.")
        await pilot.press("n", "x")
        await until(pilot, "r13 cannot be promoted any more")
        assert not daemon.bodies("POST", f"{BASE}/releases/r13/dismiss")
        await pilot.press("y")
        await until(pilot, "r13 is dismissed.")
        assert daemon.bodies("POST", f"{BASE}/releases/r13/dismiss") == [{}]
        await _select(pilot, "r12")
        await pilot.press("x")
        await until(pilot, "r12 is not held.")


async def test_what_makes_no_sense_is_not_asked_for() -> None:
    daemon = _daemon()
    async with opened(daemon) as pilot:
        for release, key, sentence in (
            ("r14", "r", "r14 serves already"),
            ("r13", "r", "r13 is held and has never served"),
            ("r7", "r", "r7 was rejected and never served"),
            ("r9", "r", "r9 was promoted as r10 and never"),
            ("r12", "p", "r12 has served before"),
            ("r7", "p", "r7 was rejected; its weights"),
            ("r9", "p", "r9 was promoted as r10 already"),
        ):
            await _select(pilot, release)
            await pilot.press(key)
            await until(pilot, sentence)
            pilot.app.clear_notifications()
        assert not [asked for asked in daemon.asked if asked[0] != "GET"]


async def test_undo_and_promote_send_the_head_that_was_seen() -> None:
    daemon = _daemon()
    daemon.answers[f"POST {BASE}/undo"] = _moved(daemon, item(16, "undo training r14", 0, "undo", current=True, parent_release_id="r14"))
    async with opened(daemon) as pilot:
        await pilot.press("u")
        await until(pilot, "r16 will serve what served before r14, the content of r12:")
        await pilot.press("y")
        await until(pilot, "r16 serves now.")
        assert daemon.bodies("POST", f"{BASE}/undo") == [{"expected_head": "r14"}]
        daemon.answers[f"{BASE}/releases/r16/diff/r15"] = {**diff("r16", "r15"), "line": "LoRA r16 (9.4 MB)"}
        daemon.answers[f"POST {BASE}/promote"] = _moved(daemon, item(17, "LoRA r16 (9.4 MB)", 0, "promote", current=True))
        await _select(pilot, "r15")
        await pilot.press("p")
        shown = await until(pilot, "r17 will serve r15's content")
        assert "The gate had said: held: 3 wins and 1 loss may be luck" in shown
        await pilot.press("enter")
        await until(pilot, "r17 serves now.")
        assert daemon.bodies("POST", f"{BASE}/promote") == [{"release_id": "r15", "expected_head": "r16"}]


async def test_an_aged_proposal_is_put_on_what_serves_and_no_gate_is_quoted() -> None:
    daemon = _daemon()
    verdict = "held: proposed by an agent in ses_1, and not evaluated"
    proposal = item(16, "+1 rule", 0, "proposal", state="held", aged=True, verdict=verdict, parent_release_id="r12")
    listed = daemon.answers[f"{BASE}/releases"]
    assert isinstance(listed, dict) and isinstance(listed["releases"], list)
    daemon.answers[f"{BASE}/releases"] = page([proposal, *listed["releases"]])
    daemon.answers[f"{BASE}/releases/r16"] = proposal
    async with opened(daemon) as pilot:
        await _select(pilot, "r16")
        await pilot.press("p")
        shown = await until(pilot, "r17 will serve r14's content with what r16 changes: +1")
        assert "It was proposed by an agent in ses_1, and not evaluated." in shown and "gate" not in shown


async def test_an_aged_candidate_is_evaluated_again_and_followed_to_the_verdict() -> None:
    run: JSONObject = {"run_id": "run_9", "status": "running"}
    events = f"{BASE}/runs/run_9/events"
    daemon = _daemon({
        f"POST {BASE}/promote": {"run": run, "release_id": "r13", "compared_with": "r12", "head": "r14"},
        f"{BASE}/runs/run_9": {**run, "status": "done", "verdict": "promoted", "sentence": "5 wins against 0 losses", "release_id": "r16"},
    })  # fmt: skip
    async with opened(daemon) as pilot:
        await _select(pilot, "r13")
        await pilot.press("p")
        shown = await until(pilot, "r13 was compared with r12; r14 serves now.")
        assert "y Evaluate" in shown
        await pilot.press("y")
        daemon.push(events, {"type": "task", "split": "held-out", "done": 3, "total": 80})
        await until(pilot, "Promote r13: held-out task 3 of 80")
        daemon.answers[f"{BASE}/releases"] = page([item(16, "+8 demonstrations", 0, "promote", current=True), *chain()[2:]])
        daemon.end_stream(events)
        shown = await until(pilot, "5 wins against 0 losses")
        assert "r16" in await until(pilot, "●   r16")
        assert "held-out task 3" not in screen_text(pilot)


async def test_a_pin_is_set_and_taken_off() -> None:
    daemon = _daemon({f"POST {BASE}/pins": {"pinned": True}, f"DELETE {BASE}/pins/r5": {"pinned": False}})
    async with opened(daemon) as pilot:
        await _select(pilot, "r12")
        await pilot.press("i")
        await until(pilot, "r12 is kept whole")
        daemon.answers[f"{BASE}/releases"] = page([{**release, "pinned": release["release_id"] == "r12"} for release in chain()])
        daemon.answers[f"{BASE}/releases/r12"] = {**detail("r12"), "pinned": True}
        await pilot.press("y")
        await until(pilot, "r12◆")
        assert daemon.bodies("POST", f"{BASE}/pins") == [{"release_id": "r12"}]
        daemon.answers[f"{BASE}/releases"] = page()
        daemon.tell("head")
        await _select(pilot, "r5")
        await until(pilot, "r5◆")
        await pilot.press("i", "y")
        await settled(pilot)
        assert daemon.bodies("DELETE", f"{BASE}/pins/r5") == [{}]


async def test_any_two_are_compared_word_by_word_layer_by_layer_and_task_by_task(snapshots: Snapshots) -> None:
    async with opened(_daemon(), size=(120, 60)) as pilot:
        await _select(pilot, "r12")
        await pilot.press("m")
        await until(pilot, "r12 A")
        await _select(pilot, "r14")
        await pilot.press("c")
        shown = await until(pilot, "r12  →  r14")
        assert "4 − - Run some tests before you say that it might work." in shown
        assert "4 + - Run the tests before you say that it works." in shown
        assert "rank 8 · 4.7 MB" in shown and "recipe.learning_rate" in shown
        assert "[bold]not markup[/bold]" in shown
        await snapshots.every_look(pilot, "releases-compare")
        await pilot.press("v")
        shown = await until(pilot, "parser.py, lexer.py, cli.py")
        assert "before  I think it is done." in shown
        await pilot.press("v", "f")
        shown = await until(pilot, "What does this traceback say?")
        await settled(pilot)
        assert "Rename the function" not in screen_text(pilot), "those that became worse"
        await pilot.press("f")
        shown = await until(pilot, "Rename the function")
        assert "traceback" not in shown
        await pilot.press("escape")
        await until(pilot, "r12 A")


async def test_without_a_mark_the_older_one_comes_first_and_the_sides_can_be_swapped() -> None:
    daemon = _daemon()
    daemon.answers[f"{BASE}/releases/r11/diff/r14"] = {**diff("r11", "r14"), "same_content": True, "files": [], "tasks": {}}
    async with opened(daemon) as pilot:
        await _select(pilot, "r11")
        await pilot.press("c")
        await until(pilot, "r11  →  r14")
        await until(pilot, "The same content")
        await pilot.press("x")
        await until(pilot, "r14  →  r11")
        await pilot.press("r")
        await settled(pilot)
        assert "will serve" not in screen_text(pilot), "a comparison has no release under the cursor"


async def test_the_mouse_does_what_the_keys_do() -> None:
    daemon = _daemon()
    daemon.answers[f"POST {BASE}/rollback"] = _moved(daemon, item(16, "back to r12: what r12 holds", 0, "rollback", current=True))
    async with opened(daemon, size=LARGE) as pilot:
        await pilot.click(Feed, offset=(20, 6))
        await until(pilot, "back to r10")
        assert pilot.app.query_one(Feed).selected == "r12", "the fourth release, two lines each"
        await until(pilot, "r Roll back")
        key = next(key for key in pilot.app.query(FooterKey) if key.description == "Roll back")
        await pilot.click(key)
        await until(pilot, "r16 will serve r12's content")
        await pilot.click("Pressable.yes")
        await until(pilot, "r16 serves now.")


async def test_while_the_daemon_is_lost_its_key_starts_it_and_the_last_data_stay() -> None:
    daemon = _daemon()
    async with opened(daemon) as pilot:
        daemon.there = False
        daemon.lose()
        assert "r14" in await until(pilot, "The daemon does not answer.")
        await pilot.press("u", "S")
        await settled(pilot)
        assert daemon.started == 1 and not daemon.bodies("POST", f"{BASE}/undo")


def _unconfirmed(release_id: str = "r15") -> NeedsYes:
    files: list[JSON] = [
        {
            "path": path,
            "status": "added",
            "unified": "x",
            "hunks": [{"before_line": 0, "after_line": 1, "lines": [
                {"kind": "added", "before": None, "after": number, "segments": [[text, True]]} for number, text in enumerate(lines, start=1)
            ]}],
        }
        for path, lines in (
            ("AGENTS.md", ["- See https://evil.example/x"]),
            ("extensions/own/index.ts", [f"const a{number} = {number}" for number in range(60)]),
        )
    ]  # fmt: skip
    findings: list[JSON] = [
        {"id": "f1", "path": "AGENTS.md", "line": 1, "span": "https://evil.example/x\x1b[2J", "reason": "a new URL", "executable": False},
        {
            "id": "f2",
            "path": "extensions/own/index.ts",
            "line": 1,
            "span": "const a0",
            "reason": "executable: it waits",
            "executable": True,
        },
    ]
    shown: JSONObject = {"release_id": release_id, "head": "r14", "findings": findings, "files": files}
    return NeedsYes("The guard found 2 things in r15.", "Look.", shown)


async def test_what_the_guard_found_is_shown_with_its_files_and_only_a_yes_of_its_own_promotes(snapshots: Snapshots) -> None:
    daemon = _daemon()
    done = _moved(daemon, item(16, "+1 extension", 0, "promote", current=True))

    def answer(body: JSONObject) -> JSONObject:
        if body.get("confirmed") != ["f1", "f2"]:
            raise _unconfirmed()
        return done(body)

    daemon.answers[f"POST {BASE}/promote"] = answer
    async with opened(daemon) as pilot:
        await _select(pilot, "r15")
        await pilot.press("p")
        await until(pilot, "r16 will serve r15's content")
        await pilot.press("y")
        shown = await until(pilot, "The guard found 2 things")
        assert "1 thing marked ▶ would run on this machine" in shown and "▶ extensions/own/index.ts:1" in shown
        assert "\x1b[2J" not in shown and "a new URL: https://evil.example/x" in shown
        await snapshots.every_look(pilot, "releases-consent")
        await pilot.press("end")
        assert "const a59 = 59" in await until(pilot, "const a59"), "all of it can be read"
        await pilot.press("y", "enter")
        await settled(pilot)
        assert "const a59" in screen_text(pilot), "the keys that said yes before are none here"
        await pilot.press("escape")
        await settled(pilot)
        assert len(daemon.bodies("POST", f"{BASE}/promote")) == 1 and "●   r14" in screen_text(pilot)
        await pilot.press("p")
        await until(pilot, "r16 will serve r15's content")
        await pilot.press("y")
        await until(pilot, "The guard found 2 things")
        await pilot.press("a")
        await until(pilot, "r16 serves now.")
        assert daemon.bodies("POST", f"{BASE}/promote")[-1] == {"release_id": "r15", "expected_head": "r14", "confirmed": ["f1", "f2"]}
