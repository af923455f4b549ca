"""A disk that refuses: the client is told, no receipt is given, nothing is half written, and all goes on once there is room."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from daemon.experience.journal import journal_path
from tests.e2e.faults.test_admission import records
from tests.e2e.faults.upstream import home_over, upstream
from tests.e2e.reef_home import ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def limit(reef: ReefHome, size: int) -> None:
    """No file of the daemon may grow beyond `size`: writes fail in the middle, as on a failing disk."""
    resource.prlimit(reef.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def ask(reef: ReefHome, text: str, *, stream: bool) -> tuple[int, str]:
    """Status and receipt; the receipt is empty where the answer has none."""
    body = {"model": reef.model, "stream": stream, "messages": [{"role": "user", "content": text}]}
    answer = reef.request("POST", "/v1/chat/completions", body, who="client")
    if answer.status_code != 200:
        error = answer.json()["error"]
        assert error["code"] == "storage_failed" and "Free disk space" in error["message"], error
        return answer.status_code, ""
    if not stream:
        return 200, answer.headers["x-reef-agent-record-id"]
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    receipts = [event["reef"]["agent_record_id"] for event in events if "agent_record_id" in event.get("reef", {})]
    if not receipts:
        assert any("error" in event for event in events), "a stream without its receipt must say why"
    return 200, receipts[0] if receipts else ""


def test_writes_that_fail_anywhere_in_admission_give_no_receipt_and_leave_nothing_half_written(tmp_path: Path) -> None:
    with upstream() as server, home_over(server, tmp_path / "home") as reef:
        reef.start()
        given: dict[str, str] = {}
        tried = refused = 0
        for number in range(40):
            # From "not a byte more" to all of an entry: the journal's write is cut somewhere, and the tables' writes as well. Or the
            # tables' alone, in steps that are no multiple of a page, while the journal has room: each record waits there.
            log_bytes = Path(f"{reef.home.database}-wal").stat().st_size
            journal_alone = number % 2 == 0
            limit(reef, journal_path(reef.home.database).stat().st_size + 71 * number if journal_alone else log_bytes + 6301 * number)
            for part in range(4):
                text = f"question {number} {part} " + "of many words " * (30 * part)
                _, receipt = ask(reef, text, stream=part % 2 == 0)
                tried += 1
                if receipt:
                    given[receipt] = text
                else:
                    refused += 1
                    assert journal_alone, "the journal has room"
                if part == 1:  # what waits is wanted in the tables, and may not get there
                    reef.get("/reef/scenarios/default/sessions?limit=1")
            if number == 0:
                status_now = reef.get("/reef/status")
                assert any("Nothing can be stored" in str(warning) for warning in status_now["warnings"])
            limit(reef, resource.RLIM_INFINITY)
            _, receipt = ask(reef, f"room again {number}", stream=False)
            given[receipt] = f"room again {number}"
            assert receipt, "once there is room it is stored again"
        assert not reef.get("/reef/status")["warnings"]
        stored = {one["agent_record_id"]: one["payload"]["messages"][0]["content"] for one in records(reef)}
        assert refused > 40 and len(given) > 50 and stored == given, "what was refused is not there, and what was given a receipt is"
        assert reef.fsck().returncode == 0
        reef.kill()
        reef.start()
        assert {one["agent_record_id"] for one in records(reef)} == set(given)
        print(f"{tried} requests on a full disk, {refused} refused, {len(given)} receipts, 0 lost")
