"""What was said elsewhere comes in as sessions, once, and can be judged and learned from like what was said here."""

from __future__ import annotations

import time
from pathlib import Path

from daemon.experience.stream import ExperienceStream
from daemon.records import JSON, JSONObject, Step
from tests.daemon.running import Running, running


def user(text: str) -> JSONObject:
    return {"role": "user", "content": text}


def assistant(text: str) -> JSONObject:
    return {"role": "assistant", "content": text}


def session(*exchanges: tuple[str, str], **more: JSON) -> JSONObject:
    turns: list[JSON] = []
    for number, (asked, said) in enumerate(exchanges):
        turn: JSONObject = {"added": [user(asked)], "reply": assistant(said)}
        turns.append(turn if number == 0 else {**turn, "parent": number - 1})
    return {"turns": turns, **more}


def envelope(record: str, *messages: JSONObject, **more: JSON) -> JSONObject:
    return {
        "agent_record_id": record,
        "request_type": "inference",
        "payload": {"messages": list(messages[:-1]), "reply": messages[-1], **more},
    }


async def put(daemon: Running, *sessions: JSONObject) -> JSONObject:
    answer = await daemon.client.post("/reef/import", json={"sessions": list(sessions)})
    assert answer.status_code == 200, answer.text
    found: JSONObject = answer.json()
    return found


async def test_a_session_comes_in_once_with_its_feedback_and_its_branches(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        talk = session(
            ("first", "one"), ("second", "two"), tools=[{"type": "function", "function": {"name": "f"}}], tags={"agent": "other"}
        )
        turns = talk["turns"]
        assert isinstance(turns, list)
        turns.append({"added": [user("instead")], "reply": assistant("three"), "parent": 0, "score": 1, "created_at": 1_600_000_000})
        first = await put(daemon, talk)
        assert (first["new"], first["present"], first["reports"]) == (3, 0, 1)
        again = await put(daemon, talk)
        assert (again["new"], again["present"], again["reports"], again["refused"]) == (0, 3, 0, [])
        [summary] = daemon.services.reader.sessions("default")
        view = daemon.services.reader.session(summary.id)
        stored = [turn.inference for turn in view.turns]
        assert [item.reply["content"] for item in stored] == ["one", "two", "three"]
        assert [item.lineage.step for item in stored] == [Step.BEGIN, Step.CONTINUE, Step.BRANCH]
        assert list(stored[2].messages) == [user("first"), assistant("one"), user("instead")] and stored[2].created_at == 1_600_000_000
        assert (
            stored[0].wire == "import" and stored[0].tokens is None and stored[0].tags == {"agent": "other"} and stored[0].request["tools"]
        )
        found = ExperienceStream(daemon.services.reader, "default").new()
        assert [(turn.score, turn.lag) for turn in found] == [(None, 0), (None, 0), (1, 0)]
        assert found[0].next_state == (user("second"),)


async def test_a_conversation_that_goes_on_here_stays_the_same_session(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await put(daemon, session(("a question", "an answer"), id="from-elsewhere"))
        body = {"model": "scripted", "messages": [user("a question"), assistant("an answer"), user("and now?")]}
        receipt = (await daemon.client.post("/v1/chat/completions", json=body)).headers["x-reef-agent-record-id"]
        assert daemon.services.reader.inference(receipt).session == "from-elsewhere"


async def test_a_key_is_not_kept_as_the_id_of_a_session(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        key = "ghp_" + "a1B2" * 9
        await put(daemon, session(("a question", "an answer"), id=key))
        page = {"records": [envelope("rec-1", user("another"), assistant("answer"), session=key)]}
        assert (await daemon.client.post("/reef/records/batch", json=page)).status_code == 200
        [summary] = daemon.services.reader.sessions("default")
        assert key not in summary.id and summary.turns == 2


async def test_who_imports_is_not_idle(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        began = time.monotonic()
        await put(daemon, session(("a question", "an answer")))
        assert daemon.services.serving.activity.idle_s("default") <= time.monotonic() - began
        again = time.monotonic()
        page = {"records": [envelope("rec-1", user("a question"), assistant("an answer"))]}
        assert (await daemon.client.post("/reef/records/batch", json=page)).status_code == 200
        assert daemon.services.serving.activity.idle_s("default") <= time.monotonic() - again


async def test_imported_words_are_found(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await put(daemon, session(("where is the aardvark?", "in the zoo")), session(("something else", "yes")))
        found = (await daemon.client.get("/reef/scenarios/default/sessions?q=aardvark")).json()["sessions"]
        assert [one["title"] for one in found] == ["where is the aardvark?"]


async def test_a_turn_whose_id_is_taken_is_named_and_the_others_come_in(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await put(daemon, {"turns": [{"id": "taken", "added": [user("x")], "reply": assistant("y")}]})
        other: JSONObject = {"id": "taken", "added": [user("x")], "reply": assistant("z"), "score": 1}
        answer = await put(daemon, {"turns": [other, {"added": [user("more")], "reply": assistant("ok")}]})
        refused = answer["refused"]
        assert isinstance(refused, list) and isinstance(refused[0], dict)
        assert answer["new"] == 1 and refused[0]["agent_record_id"] == "taken"


async def test_what_is_no_session_is_refused_by_its_name_and_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for sessions in (
            [],
            [{"turns": []}],
            [session(("a", "b")), {"turns": [{"added": [], "reply": user("x")}]}],
            ["x"],
            [{"turns": [7]}],
        ):
            answer = await daemon.client.post("/reef/import", json={"sessions": sessions})
            assert answer.status_code == 400 and "sessions" in answer.json()["error"]["message"], sessions
        assert daemon.services.reader.counts("default").inferences == 0


async def test_secrets_of_imported_sessions_are_not_stored(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        secret = "sk-abcdefghijklmnopqrstuvwxyz0123"
        talk = session((f"use {secret}", f"I use {secret}"))
        await put(daemon, talk)
        assert (await put(daemon, talk))["present"] == 1
        [summary] = daemon.services.reader.sessions("default")
        assert secret not in str(daemon.services.reader.session(summary.id))


async def test_records_with_a_conversation_become_turns_that_reports_can_speak_of(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        response: JSON = {"choices": [{"message": assistant("4"), "finish_reason": "stop"}], "model": "other"}
        records: list[JSON] = [
            {
                "agent_record_id": "sample-1",
                "request_type": "inference",
                "payload": {"messages": [user("2+2?")], "response": response, "seed": 1},
            },
            envelope("sample-2", user("2+2?"), assistant("4"), user("sure?"), assistant("yes")),
            envelope("sample-3", user("2+2?"), assistant("5")),
            {"agent_record_id": "score-1", "request_type": "report", "payload": {"references": ["sample-1"], "score": 1}},
            {"agent_record_id": "other", "request_type": "episode", "payload": {"anything": True}},
        ]
        for new in (5, 0):
            answer = (await daemon.client.post("/reef/records/batch", json={"records": records})).json()
            assert answer["new"] == new and answer["records"][3] == {
                "agent_record_id": "score-1",
                "scenario": "default",
                "request_type": "report",
            }
        reader = daemon.services.reader
        first, second, third = (reader.inference(f"sample-{number}") for number in (1, 2, 3))
        assert first.model == "other" and first.request == {"seed": 1} and first.session == second.session != third.session
        assert [report.score for report in reader.reports_for("sample-1")] == [1]
        assert [record.id for record in reader.imported("default")] == ["other"]
        shown = (await daemon.client.get("/reef/scenarios/default/records?request_type=inference")).json()["records"]
        assert [record["agent_record_id"] for record in shown] == ["sample-1", "sample-2", "sample-3"]
        later = await daemon.client.post("/reef/report", json={"references": ["sample-3"], "score": -1})
        assert later.status_code == 200
        changed = await daemon.client.post("/reef/records", json=envelope("sample-2", user("2+2?"), assistant("no")))
        assert changed.status_code == 409
        early: JSON = {"agent_record_id": "s", "request_type": "report", "payload": {"references": ["nowhere"], "score": 1}}
        assert (
            await daemon.client.post("/reef/records/batch", json={"records": [envelope("n", user("x"), assistant("y")), early]})
        ).status_code == 400
        assert reader.counts("default").inferences == 3


async def test_a_transcript_of_what_was_served_here_is_joined_to_its_records(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        served = await daemon.chat("first", prompt_cache_key="kept")
        receipt = served.headers["x-reef-agent-record-id"]
        said = served.json()["choices"][0]["message"]["content"]
        talk = session(("first", said), ("second", "elsewhere"), id="kept", tags={"transcript": "pi"})
        turns = talk["turns"]
        assert isinstance(turns, list) and isinstance(turns[0], dict)
        turns[0]["score"] = 1
        for counted in ((1, 1, 1), (0, 2, 0)):
            answer = await put(daemon, talk)
            assert (answer["new"], answer["present"], answer["reports"], answer["refused"]) == (*counted, [])
        view = daemon.services.reader.session("kept", "default")
        assert [turn.inference.reply["content"] for turn in view.turns] == [said, "elsewhere"]
        assert [report.score for report in view.turns[0].reports] == [1] and view.turns[0].inference.id == receipt

        by_receipt = session(("first", "told otherwise"), id="another", tags={"transcript": "claude"})
        turns = by_receipt["turns"]
        assert isinstance(turns, list) and isinstance(turns[0], dict)
        turns[0]["id"] = receipt
        answer = await put(daemon, by_receipt)
        assert (answer["new"], answer["present"], answer["refused"]) == (0, 1, [])

        plain = session(("first", said), id="kept")
        assert (await put(daemon, plain))["new"] == 1, "only what says whose transcript it is"
