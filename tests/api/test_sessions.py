"""A session over HTTP: what each turn adds, how it goes on, what is told of it; the same whichever wire it came over."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from daemon.records import JSONObject, Message
from tests.daemon.running import Running, running
from tests.engine.fake import ScriptedEngine

BASE = "/reef/scenarios/default/sessions"


async def shown(daemon: Running, session: str, more: str = "") -> list[JSONObject]:
    answer = await daemon.client.get(f"{BASE}/{session}{more}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["turns"])


async def ask(daemon: Running, messages: list[Message], session: str = "mine", **more: object) -> httpx.Response:
    body = {"model": "scripted", "messages": messages, **more}
    answer = await daemon.client.post("/v1/chat/completions", json=body, headers={"x-session-id": session})
    assert answer.status_code == 200, answer.text
    return answer


def said(answer: httpx.Response) -> Message:
    message: Message = answer.json()["choices"][0]["message"]
    return message


async def test_each_turn_shows_what_it_adds_and_what_its_next_one_said(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        history: list[Message] = [{"role": "system", "content": "s"}, {"role": "user", "content": "one"}]
        first = await ask(daemon, history)
        branched = [*history, said(first), {"role": "user", "content": "other"}]
        history += [said(first), {"role": "user", "content": "no, two"}]
        await ask(daemon, history)
        await ask(daemon, history)
        await ask(daemon, branched)
        assert (await daemon.client.get(BASE)).json()["sessions"][0]["turns"] == 3, "the same request again is no turn more"
        turns = await shown(daemon, "mine")
        receipts = [turn["receipt"] for turn in turns]
        assert [turn["step"] for turn in turns] == ["begin", "continue", "retry", "branch"]
        assert [turn["follows"] for turn in turns] == [None, receipts[0], receipts[1], receipts[0]]
        assert [turn["line"] for turn in turns] == [0, 0, 0, 1]
        assert [turn["number"] for turn in turns] == [1, 2, None, 3]
        assert [[message["content"] for message in turn["added"]] for turn in turns] == [["s", "one"], ["no, two"], [], ["other"]]  # type: ignore[index,union-attr,call-overload]
        assert [turn["signals"] for turn in turns] == [["objected"], ["retried"], [], []]
        assert [turn["message_count"] for turn in turns] == [2, 4, 4, 4]
        assert all("messages" not in turn for turn in turns)
        assert [turn["messages"] for turn in await shown(daemon, "mine", "?messages=all")][1] == history


async def test_a_subagents_session_names_the_one_that_it_works_for(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        headers = {"x-session-id": "child", "x-parent-session-id": "main", "x-reef-tag-client": "opencode"}
        body = {"model": "scripted", "messages": [{"role": "user", "content": "find it"}]}
        await daemon.client.post("/v1/chat/completions", json=body, headers=headers)
        assert [turn["tags"] for turn in await shown(daemon, "child")] == [{"client": "opencode", "parent-session": "main"}]


async def test_three_choices_are_one_turn_with_three_replies(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        answer = await ask(daemon, [{"role": "user", "content": "hello"}], n=3)
        receipts = answer.json()["reef"]["agent_record_ids"]
        summary = (await daemon.client.get(BASE)).json()["sessions"][0]
        assert (summary["turns"], summary["asides"]) == (1, 0)
        turns = {turn["receipt"]: turn for turn in await shown(daemon, "mine")}
        assert [turns[receipt]["step"] for receipt in receipts] == ["begin", "choice", "choice"]
        assert [turns[receipt]["signals"] for receipt in receipts] == [[], [], []], "a choice is no retry"
        # they are stored as they end; one that ends before the first does not know it yet
        assert {turns[receipt]["follows"] for receipt in receipts[1:]} <= {receipts[0], None}


async def test_one_conversation_over_all_three_wires_is_one_session(tmp_path: Path) -> None:
    """Whatever a client speaks, its next turn finds the last one: by what it sends back alone."""
    async with running(tmp_path, ScriptedEngine()) as daemon:
        first = "a question that nobody else asks"
        answer = await daemon.client.post("/v1/responses", json={"model": "scripted", "input": first})
        output = answer.json()["output"]
        more = {"role": "user", "content": "and then?"}
        items = [{"role": "user", "content": first}, *output, more]
        second = await daemon.client.post("/v1/responses", json={"model": "scripted", "input": items})
        assert second.status_code == 200, second.text
        text = f"echo: {first}"
        history = [{"role": "user", "content": first}, {"role": "assistant", "content": [{"type": "text", "text": text}]}, more]
        third = await daemon.client.post("/v1/messages", json={"model": "scripted", "max_tokens": 50, "messages": history})
        fourth = await daemon.client.post("/v1/chat/completions", json={"model": "scripted", "messages": history})
        assert third.status_code == fourth.status_code == 200, third.text + fourth.text
        sessions = (await daemon.client.get(BASE)).json()["sessions"]
        assert [session["turns"] for session in sessions] == [2], json.dumps(sessions)
        turns = await shown(daemon, sessions[0]["id"])
        assert [turn["step"] for turn in turns] == ["begin", "continue", "retry", "retry"]
        assert {turn["wire"] for turn in turns} == {"responses", "messages", "chat"}


@pytest.mark.parametrize("session", ["a/b", "../../x", "a?b#c", "a/update"])
async def test_a_session_whose_id_looks_like_a_path_is_shown_like_any(tmp_path: Path, session: str) -> None:
    async with running(tmp_path) as daemon:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
        assert (await daemon.client.post("/v1/chat/completions", json=body, headers={"x-session-id": session})).status_code == 200
        place = f"/reef/scenarios/default/sessions/{quote(session, safe='')}"
        assert (await daemon.client.get(place)).json()["id"] == session
        assert (await daemon.client.post(f"{place}/update", json={})).json()["session"] == session


async def test_a_long_session_is_read_in_parts_from_either_end(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        history: list[Message] = []
        for number in range(5):
            history.append({"role": "user", "content": f"question {number}"})
            history.append(said(await ask(daemon, history)))
        whole = await shown(daemon, "mine")
        for query, places in (
            ("?limit=2", [3, 4]),
            ("?limit=2&from=1", [1, 2]),
            ("?from=3", [3, 4]),
            ("?limit=9&from=9", []),
            ("", range(5)),
        ):
            answer = (await daemon.client.get(f"{BASE}/mine{query}")).json()
            assert [turn["receipt"] for turn in answer["turns"]] == [whole[place]["receipt"] for place in places], query
            assert answer["all"] == 5
            if places:
                assert answer["first"] == places[0]
        for query in ("?limit=0", "?limit=1001", "?from=-1", "?from=x"):
            assert (await daemon.client.get(f"{BASE}/mine{query}")).status_code == 400, query


async def test_a_session_under_way_says_so_and_which_release_it_keeps(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await ask(daemon, [{"role": "user", "content": "hello"}])
        listed = (await daemon.client.get(BASE)).json()["sessions"][0]
        assert (listed["live"], listed["answering"], listed["keeps"]) == (True, False, listed["releases"][0])
        await daemon.client.post(f"{BASE}/mine/update", json={})
        let_go = (await daemon.client.get(f"{BASE}/mine")).json()
        assert (let_go["live"], let_go["keeps"]) == (False, None), "its next request takes the head"
