"""`curl … /reef/harness/install?adapter=pi | bash`: one installer, and nothing of the query reaches the shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.daemon.running import running


def run(command: list[str], script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=script, text=True, capture_output=True, check=False)


async def test_the_script_is_plain_sh_and_runs_the_daemons_own_installer(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        answer = await daemon.client.get("/reef/harness/install", params={"adapter": "pi"})
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/x-shellscript")
        script = answer.text
        for shell in ("sh", "bash"):
            assert run([shell, "-n"], script).returncode == 0
        assert sys.executable in script and str(daemon.services.home.root) in script
        assert " install pi " in script and script.rstrip().endswith("main")
        token = daemon.services.home.client_token.read_text().strip()
        assert token not in script, "it is piped through who knows what"


async def test_part_of_a_script_does_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        script = (await daemon.client.get("/reef/harness/install", params={"adapter": "pi"})).text
    for length in range(0, len(script) - len("main\n"), 40):
        done = run(["sh"], script[:length])
        assert not done.stdout and "reef_cli" not in done.stderr


async def test_what_is_not_there_is_named_and_nothing_is_put_into_the_script(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for query, status in (
            ({}, 400),
            ({"adapter": "pi; touch x"}, 404),
            ({"adapter": "pi", "release_id": "$(touch x)"}, 404),
            ({"adapter": "pi", "release_id": "r9"}, 404),
        ):
            answer = await daemon.client.get("/reef/harness/install", params=query)
            assert answer.status_code == status, answer.text
            assert answer.json()["error"]["hint"]
