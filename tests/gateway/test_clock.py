"""The clock is set back while agents work: order, sessions and retries go by what came after what."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.daemon.running import running


async def test_a_clock_that_is_set_back_changes_no_order_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, shift = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + shift[0])
    async with running(tmp_path) as daemon:
        messages: list[dict[str, str]] = []
        receipts = []
        for number, moved in enumerate((0.0, -86_400.0, 3_600.0, -10 * 365 * 86_400.0, 0.0)):
            shift[0] = moved
            messages.append({"role": "user", "content": f"question {number}"})
            answer = await daemon.client.post("/v1/chat/completions", json={"model": "scripted", "messages": messages})
            assert answer.status_code == 200
            messages.append({"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]})
            receipts.append(answer.headers["x-reef-agent-record-id"])
            report = await daemon.client.post("/reef/report", json={"references": [receipts[-1]], "score": 1})
            assert report.status_code == 200
        assert len(set(receipts)) == 5, "no id comes twice, whatever the clock says"
        listed = (await daemon.client.get("/reef/scenarios/default/records?request_type=inference")).json()["records"]
        assert [one["agent_record_id"] for one in listed] == receipts
        [session] = (await daemon.client.get("/reef/scenarios/default/sessions")).json()["sessions"]
        assert session["turns"] == 5 and session["last_receipt"] == receipts[-1]
        shift[0] = -86_400.0
        status = (await daemon.client.get("/reef/status")).json()
        assert status["in_flight"] == 0 and all(one["idle_s"] >= 0 for one in status["scenarios"])
        assert (await daemon.client.get("/metrics")).status_code == 200
