"""The export route: every session once, without secrets, in the form that was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.api import export
from daemon.exporting.formats import FORMATS
from daemon.records import JSONObject, Status
from tests.daemon.running import Running, running
from tests.experience.make import assistant, inference, report, user

PATH = "/reef/scenarios/default/export"


async def lines(daemon: Running, **query: str) -> list[JSONObject]:
    answer = await daemon.client.get(PATH, params=query)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-ndjson", answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def talk(daemon: Running) -> list[str]:
    """A session of two turns, the second corrected, and another of one, scored. Their receipts."""
    receipts = []
    first = [{"role": "user", "content": "one"}]
    for messages in (
        first,
        [*first, {"role": "assistant", "content": "echo: one"}, {"role": "user", "content": "two"}],
        [{"role": "user", "content": "x"}],
    ):
        answer = await daemon.client.post("/v1/chat/completions", json={"model": "scripted", "messages": messages})
        receipts.append(answer.headers["x-reef-agent-record-id"])
    await daemon.client.post("/reef/report", json={"references": [receipts[1]], "score": -1, "feedback": {"correction": "zwei"}})
    await daemon.client.post("/reef/report", json={"references": [receipts[2]], "score": 1})
    return receipts


async def test_every_format_gives_every_session_once_and_says_that_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_PAGE", 1)
    async with running(tmp_path) as daemon:
        await talk(daemon)
        counts = {}
        for name in FORMATS:
            *found, summary = await lines(daemon, format=name, summary="true")
            counts[name] = len(found)
            assert summary == {"reef": {"lines": len(found), "sessions": 2, "left_out": {}}}
        assert counts == {"openai": 2, "sharegpt": 2, "kto": 3, "dpo": 1, "atif": 2, "records": 5}
        good = await lines(daemon, good_only="true")
        assert [line["messages"][-1]["content"] for line in good] == ["zwei", "echo: x"]  # type: ignore[index,call-overload]


async def test_a_session_or_a_time_narrows_it(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        receipts = await talk(daemon)
        session = daemon.services.reader.inference(receipts[0]).session
        [line] = await lines(daemon, format="atif", session=session)
        assert line["session_id"] == session
        since = daemon.services.reader.inference(receipts[2]).created_at
        assert len(await lines(daemon, since=str(since))) == 1
        assert await lines(daemon, since="90000000000") == []
        for wrong, status in (
            ({"format": "csv"}, 400),
            ({"since": "yesterday"}, 400),
            ({"good_only": "maybe"}, 400),
            ({"session": "none"}, 404),
        ):
            assert (await daemon.client.get(PATH, params=wrong)).status_code == status, wrong
        assert (await daemon.client.get("/reef/scenarios/nowhere/export")).status_code == 404


async def test_what_comes_back_from_an_export_is_what_was_there(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await talk(daemon)
        records = await lines(daemon, format="records")
        for new in (5, 0):
            answer = await daemon.client.post("/reef/records/batch", json={"records": records}, headers={"x-reef-scenario": "copy"})
            assert answer.status_code == 200 and answer.json()["new"] == new, answer.text
        again = (await daemon.client.get("/reef/scenarios/copy/export", params={"format": "dpo"})).text
        assert again == (await daemon.client.get(PATH, params={"format": "dpo"})).text != ""


async def test_secrets_that_were_stored_do_not_leave(tmp_path: Path) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwxyz0123"
    async with running(tmp_path, settings={"storage.redact": False}) as daemon:
        await daemon.chat(f"use {secret}")
        assert secret in str(daemon.services.reader.items("default"))
        for name in FORMATS:
            answer = await daemon.client.get(PATH, params={"format": name})
            assert secret not in answer.text and ("[redacted:" in answer.text or name in ("kto", "dpo"))


async def test_a_conversation_that_a_format_has_no_place_for_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await daemon.chat("fine")
        odd = {
            "messages": [{"role": "user", "content": [{"text": "a part without a type"}]}],
            "reply": {"role": "assistant", "content": "ok"},
        }
        await daemon.client.post("/reef/records", json={"agent_record_id": "odd", "request_type": "inference", "payload": odd})
        *found, summary = await lines(daemon, summary="1")
        left_out = summary["reef"]["left_out"]  # type: ignore[index,call-overload]
        assert len(found) == 1 and list(left_out.values()) == [1] and "messages" in next(iter(left_out))


async def test_what_was_broken_off_is_left_out_and_what_goes_on_from_it_is_one_conversation(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        first = inference([user("a")], "one", session="s")
        begun = [user("a"), assistant("one"), user("b")]
        broken = inference(begun, "tw", session="s", status=Status.ABORTED)
        again = inference(begun, "two", session="s")
        last = inference([*begun, assistant("two"), user("c")], "three", session="s")
        for record in (first, broken, again, last):
            daemon.services.store.append(record)
        daemon.services.store.append_report(report(last, score=1)).result(10)
        await daemon.chat("x")  # the scenario serves
        found = await lines(daemon, session="s")
        assert [line["messages"] for line in found] == [[*begun, assistant("two"), user("c"), assistant("three")]]
