"""The daemon's own gateway keeps to the protocol, and the suite leaves no trace in it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from daemon.conformance.outcome import Verdict
from daemon.conformance.suite import run
from daemon.conformance.target import daemon_target
from daemon.doctor_tools import Asked, main
from daemon.errors import BadRequest, NotFound
from daemon.paths import Home
from daemon.records import JSONObject
from tests.daemon.running import Running, running
from tests.engine.fake import Reply, ScriptedEngine


def call(name: str, number: int, **arguments: str) -> JSONObject:
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


REPLIES: Mapping[str, str | Reply] = {
    "Count from one": "one two three four five six seven eight nine ten " * 8,
    "Call the get_weather tool": Reply(tool_calls=(call("get_weather", 1, city="Lisbon"),)),
    "for both at once": Reply(tool_calls=(call("get_weather", 2, city="Lisbon"), call("get_weather", 3, city="Oslo"))),
    "notes.txt": Reply(tool_calls=(call("read_file", 4, path="notes.txt"),)),
}


def announce(daemon: Running, home: Home) -> None:
    """As a daemon process does in its lock file."""
    home.lock.write_text(json.dumps({"pid": os.getpid(), "host": "127.0.0.1", "port": daemon.port}))


async def test_the_gateway_passes_every_check_of_what_a_server_must_do_and_records_nothing(tmp_path: Path) -> None:
    engine = ScriptedEngine(REPLIES, context_tokens=32768)
    async with running(tmp_path, engine) as daemon:
        announce(daemon, Home(tmp_path))
        result = await run(daemon_target(Home(tmp_path)), answer_s=20)
        assert {o.check: o.sentence for o in result.outcomes if o.verdict in (Verdict.FAIL, Verdict.ABSENT, Verdict.SKIPPED)} == {}
        assert {o.check for o in result.outcomes if o.verdict is Verdict.WEAK} == {"edit", "result"}, "what is scripted cannot do these"
        assert result.facts.window_tokens == 32768
        listed = (await daemon.owner.get("/reef/scenarios")).json()["scenarios"]
        assert [(one["name"], one["sessions"], one["records"]) for one in listed] == [("default", 0, 0)]
        assert daemon.services.serving.activity.in_flight == 0


def test_without_a_daemon_it_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as told:
        main(Home(tmp_path), Asked())
    assert "reef up" in told.value.hint and "--url" in told.value.hint
    with pytest.raises(BadRequest, match="--url"):
        main(Home(tmp_path), Asked(key_env="KEY"))
