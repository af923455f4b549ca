"""Feedback, records and sessions as a client sees them."""

from __future__ import annotations

from pathlib import Path

from tests.daemon.running import Running, running
from tests.engine.fake import Reply, ScriptedEngine


async def receipt(daemon: Running, text: str = "hello") -> str:
    return str((await daemon.chat(text)).headers["x-reef-agent-record-id"])


async def test_a_report_is_stored_once_however_often_it_is_sent(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        body = {"references": [await receipt(daemon)], "score": 1, "feedback": {"correction": "better"}, "agent_record_id": "mine-1"}
        for _ in range(2):
            answer = await daemon.client.post("/reef/report", json=body)
            assert answer.json() == {"agent_record_id": "mine-1", "scenario": "default", "request_type": "report"}
        assert (await daemon.client.post("/reef/report", json={**body, "score": 0})).status_code == 409
        [report] = daemon.services.reader.reports_for(body["references"][0])
        assert report.score == 1 and report.correction == "better"


async def test_a_report_that_says_nothing_or_names_no_record_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for body in ({}, {"score": "good"}, {"score": True}, {"score": 10**400}, {"feedback": 7}, {"score": 1, "references": [1]}):
            assert (await daemon.client.post("/reef/report", json=body)).status_code == 400, body
        misplaced = await daemon.client.post("/reef/report", json={"correction": "fix: it", "references": []})
        hint = misplaced.json()["error"]["hint"]
        assert misplaced.status_code == 400 and "'correction'" in hint and 'feedback: {"correction": "…"}' in hint
        unknown = await daemon.client.post("/reef/report", json={"score": 1, "references": ["rec_none"]})
        assert unknown.status_code == 400 and "rec_none" in unknown.json()["error"]["message"]
        missing = await daemon.client.post("/reef/report", json={"score": 1}, headers={"x-reef-scenario": "nowhere"})
        assert missing.status_code == 404


async def test_a_run_that_the_user_stopped_marks_its_last_reply_without_being_a_judgement(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        receipt = (await daemon.chat("hello")).headers["x-reef-agent-record-id"]
        said = {"references": [receipt], "metadata": {"outcome": "aborted"}}
        assert (await daemon.client.post("/reef/report", json=said)).status_code == 200
        session = (await daemon.client.get("/reef/scenarios/default/sessions")).json()["sessions"][0]["id"]
        [turn] = (await daemon.client.get(f"/reef/scenarios/default/sessions/{session}")).json()["turns"]
        assert turn["signals"] == ["aborted"]
        unknown = await daemon.client.post("/reef/report", json={"references": [receipt], "metadata": {"outcome": "purple"}})
        assert unknown.status_code == 400


async def test_a_report_without_a_scenario_goes_where_its_record_is(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}
        reply = await daemon.client.post("/v1/chat/completions", json=body, headers={"x-reef-scenario": "pi"})
        report = {"score": -1, "references": [reply.headers["x-reef-agent-record-id"]]}
        assert (await daemon.client.post("/reef/report", json=report)).json()["scenario"] == "pi"


async def test_records_come_in_pages_with_tokens_and_reports_among_them(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        first = await receipt(daemon)
        await daemon.client.post("/reef/report", json={"score": 1, "references": [first]})
        await receipt(daemon, "again")
        page = (await daemon.client.get("/reef/scenarios/default/records?limit=2")).json()["records"]
        assert [record["request_type"] for record in page] == ["inference", "report"]
        rest = (await daemon.client.get(f"/reef/scenarios/default/records?after_sequence={page[-1]['sequence']}")).json()["records"]
        assert len(rest) == 1
        assert (await daemon.client.get(f"/reef/scenarios/default/records/{page[1]['agent_record_id']}")).json() == page[1]
        one = (await daemon.client.get(f"/reef/scenarios/default/records/{first}")).json()
        assert one["payload"]["reply"]["content"] == "echo: hello" and len(one["payload"]["tokens"]["completion"]) > 5
        for limit in ("1000", "0", "-1", "--5", "-", "%C2%B2", "9" * 30, "1.0"):
            assert (await daemon.client.get(f"/reef/scenarios/default/records?limit={limit}")).status_code == 400, limit
        assert (await daemon.client.get("/reef/scenarios/default/records/rec_none")).status_code == 404


async def test_what_the_engine_has_to_say_of_a_reply_is_in_the_reply_and_in_its_record(tmp_path: Path) -> None:
    engine = ScriptedEngine({"call": Reply("<tool_call>{", note="A tool call could not be read.", cache_miss="history rewritten")})
    async with running(tmp_path, engine) as daemon:
        said = (await daemon.chat("call")).json()["reef"]
        assert (said["note"], said["cache_miss"]) == ("A tool call could not be read.", "history rewritten")
        payload = (await daemon.client.get(f"/reef/scenarios/default/records/{said['agent_record_id']}")).json()["payload"]
        assert (payload["note"], payload["cache_miss"]) == ("A tool call could not be read.", "history rewritten")
        assert "note" not in (await daemon.chat("plain")).json()["reef"]


async def test_an_import_is_idempotent_and_a_batch_is_all_or_none(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        record = {"agent_record_id": "old-1", "request_type": "chat", "payload": {"messages": []}}
        for _ in range(2):
            assert (await daemon.client.post("/reef/records", json=record)).json()["agent_record_id"] == "old-1"
        clash = {"agent_record_id": "old-1", "request_type": "chat", "payload": {"messages": [1]}}
        batch = {"records": [{**record, "agent_record_id": "old-2"}, clash]}
        assert (await daemon.client.post("/reef/records/batch", json=batch)).status_code == 409
        found = (await daemon.client.get("/reef/scenarios/default/records?request_type=chat")).json()["records"]
        assert [one["agent_record_id"] for one in found] == ["old-1"]
        assert (await daemon.client.get("/reef/scenarios/default/records/old-1")).json() == found[0]
        await daemon.client.post("/reef/records", json=record, headers={"x-reef-scenario": "other"})
        assert (await daemon.client.get("/reef/scenarios/other/records/old-2")).status_code == 404
        bad = await daemon.client.post("/reef/records/batch", json={"records": [record, {"agent_record_id": "x"}]})
        assert bad.status_code == 400 and "records[1].payload" in bad.json()["error"]["message"]


async def test_sessions_are_listed_newest_first_found_by_words_and_shown_turn_by_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await receipt(daemon, "a question about rivers")
        last = await receipt(daemon, "a question about stones")
        base = "/reef/scenarios/default/sessions"
        listed = (await daemon.client.get(base)).json()["sessions"]
        assert [session["title"] for session in listed] == ["a question about stones", "a question about rivers"]
        assert listed[0]["last_receipt"] == last
        page = (await daemon.client.get(f"{base}?limit=1")).json()
        older = (await daemon.client.get(f"{base}?limit=1&before={page['next']}")).json()["sessions"]
        assert older[0]["title"] == "a question about rivers"
        assert len((await daemon.client.get(f"{base}?q=rivers")).json()["sessions"]) == 1
        shown = (await daemon.client.get(f"{base}/{listed[0]['id']}")).json()
        assert shown["turns"][0]["receipt"] == last and shown["turns"][0]["added"][0]["content"] == "a question about stones"
        assert (await daemon.client.get(f"{base}/ses_none")).status_code == 404


async def test_a_secret_in_a_prompt_is_not_stored(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        stored = daemon.services.reader.inference(await receipt(daemon, "use sk-abcdefghijklmnopqrstuvwxyz0123"))
        assert "sk-abc" not in str(stored) and stored.redactions > 0


async def test_feedback_on_a_session_reaches_its_replies_but_those_with_a_score_of_their_own(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        headers = {"x-reef-session": "whole"}
        receipts = []
        for text in ("one", "two", "three"):
            body = {"model": "scripted", "messages": [{"role": "user", "content": text}]}
            receipts.append(
                (await daemon.client.post("/v1/chat/completions", json=body, headers=headers)).headers["x-reef-agent-record-id"]
            )
        await daemon.client.post("/reef/report", json={"references": [receipts[0]], "score": -1})
        said = {"session": "whole", "score": 1, "agent_record_id": "all-good"}
        answer = (await daemon.client.post("/reef/report", json=said)).json()
        assert answer["session"] == "whole" and answer["references"] == receipts[1:]
        body = {"model": "scripted", "messages": [{"role": "user", "content": "four"}]}
        await daemon.client.post("/v1/chat/completions", json=body, headers=headers)
        retried = await daemon.client.post("/reef/report", json=said)  # the session went on meanwhile
        assert retried.status_code == 200 and retried.json()["references"] == receipts[1:]
        assert (await daemon.client.post("/reef/report", json={**said, "score": 0})).status_code == 409
        assert [report.score for report in daemon.services.reader.reports_for(receipts[0])] == [-1]
        remark = (await daemon.client.post("/reef/report", json={"session": "whole", "feedback": {"note": "slow"}})).json()
        assert len(remark["references"]) == 4
        for wrong, status in (
            ({"session": "nowhere", "score": 1}, 404),
            ({"session": "whole", "score": 1, "references": receipts}, 400),
            ({"session": "whole", "feedback": {"correction": "x"}}, 400),
        ):
            assert (await daemon.client.post("/reef/report", json=wrong)).status_code == status, wrong
