"""What was said elsewhere, through the command line and a daemon that is killed in the middle: everything once, and out again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.reef_home import ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

SESSIONS = 250


def conversation(number: int) -> str:
    messages = []
    for turn in range(4):
        messages.append({"role": "user", "content": f"question {number}.{turn} {'about the code ' * 40}"})
        messages.append({"role": "assistant", "content": f"answer {number}.{turn}"})
    return json.dumps({"messages": messages}) + "\n"


def test_an_import_goes_on_after_any_death_and_an_export_gives_it_back(tmp_path: Path) -> None:
    source = tmp_path / "old.jsonl"
    source.write_text("".join(conversation(number) for number in range(SESSIONS)))
    with ReefHome(tmp_path / "home") as reef:
        reef.start()
        command = [sys.executable, "-P", "-m", "reef_cli.main", "import", str(source), "-s", "old"]
        importing = subprocess.Popen(command, env=reef.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not stored(reef) and time.monotonic() < deadline:
            time.sleep(0.01)
        reef.kill()
        _, said = importing.communicate(timeout=60)
        assert importing.returncode == 1 and "daemon" in said  # it says why it ends
        reef.start()
        begun = stored(reef)
        assert 0 < begun < 4 * SESSIONS
        again = reef.cli("import", str(source), "-s", "old", "--json")
        assert again.returncode == 0, again.stderr
        counted = json.loads(again.stdout)
        assert counted["new"] + begun == 4 * SESSIONS and counted["present"] == begun and counted["skipped"] == 0
        assert json.loads(reef.cli("import", str(source), "-s", "old", "--json").stdout)["new"] == 0
        out = tmp_path / "out.jsonl"
        assert reef.cli("export", "-s", "old", "-o", str(out)).returncode == 0
        assert sorted(json.loads(line)["messages"] != [] for line in out.read_text().splitlines()) == [True] * SESSIONS
        assert {json.dumps(json.loads(line)) for line in out.read_text().splitlines()} == {line for line in source.read_text().splitlines()}
        piped = reef.cli("export", "-s", "old", "-f", "atif")
        assert piped.stdout.count('"schema_version":"ATIF-v1.7"') == SESSIONS
        assert reef.stop() == 0
        checked = reef.fsck()
        assert checked.returncode == 0, checked.stdout


def stored(reef: ReefHome) -> int:
    found = [scenario for scenario in reef.get("/reef/scenarios")["scenarios"] if scenario["name"] == "old"]
    return int(found[0]["records"]) if found else 0
