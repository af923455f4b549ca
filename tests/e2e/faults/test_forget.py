"""`kill -9` while a session is being forgotten: the same command, or the next start, finishes it, and nothing else is lost."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import httpx
import pytest

from daemon.failpoints import FORGET_FAILPOINTS
from daemon.harness_tree import HarnessTree
from daemon.serving_hints import Demonstration, ServingHints
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from daemon.versions.repository import Repository
from tests.e2e.faults.upstream import home_over, upstream
from tests.e2e.reef_home import ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

FORGET = "/reef/scenarios/default/forget"


def _ask(reef: ReefHome, text: str) -> tuple[str, str]:
    """Receipt and session."""
    body = {"model": reef.model, "messages": [{"role": "user", "content": text}]}
    answer = reef.request("POST", "/v1/chat/completions", body, who="client")
    receipt = answer.headers["x-reef-agent-record-id"]
    sessions = reef.get("/reef/scenarios/default/sessions?limit=100")["sessions"]
    return receipt, next(one["id"] for one in sessions if one["last_receipt"] == receipt)


def _show(reef: ReefHome, text: str, receipt: str) -> None:
    """A release that shows it, made while the daemon is down."""
    repository = Repository(reef.home.versions)
    head = repository.head("default")
    assert head is not None
    hints = ServingHints(demonstrations=(Demonstration(prompt=text, reply="so", source=receipt),))
    tree = HarnessTree({"serving.json": hints.model_dump_json(indent=1) + "\n"})
    repository.publish(Draft("default", Operation.TRAINING, head.manifest.base, harness=tree, records=(receipt,)), head.id)
    repository.close()


def _holding(root: Path, text: str) -> list[str]:
    found = []
    for path in (path for path in root.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if "objects" in path.parts and len(path.name) == 38:
            data = zlib.decompress(data)
        if text.encode() in data:
            found.append(str(path.relative_to(root)))
    return found


def test_a_kill_while_forgetting_leaves_nothing_half_forgotten(tmp_path: Path) -> None:
    with upstream() as server, home_over(server, tmp_path / "home") as reef:
        kept: list[str] = []
        for number, point in enumerate(FORGET_FAILPOINTS):
            text = f"the {number}th secret wish of a person who wants to be forgotten"
            reef.start(env={"REEF_FAILPOINT": point})
            receipt, session = _ask(reef, text)
            kept.append(_ask(reef, f"what stays, {number}, is a question about the weather")[0])
            assert reef.stop() == 0
            _show(reef, text, receipt)
            reef.start(env={"REEF_FAILPOINT": point})
            with pytest.raises(httpx.HTTPError):
                reef.request("POST", FORGET, {"session": session})
            assert reef.wait_dead() == -9, f"{point} was not passed"
            reef.start()
            if point == "forget.records-removed":  # nobody can name it any more: the start itself finishes it
                until = time.monotonic() + 20
                while _holding(reef.root, text) and time.monotonic() < until:
                    time.sleep(0.1)
            else:
                assert reef.post(FORGET, {"session": session})["forgotten"]
            assert reef.request("GET", f"/reef/scenarios/default/sessions/{session}").status_code == 404
            for one in kept:
                assert reef.get(f"/reef/scenarios/default/records/{one}")["agent_record_id"] == one
            checked = reef.fsck()
            assert checked.returncode == 0, checked.stdout + checked.stderr
            assert reef.stop() == 0
            assert _holding(reef.root, text) == []
