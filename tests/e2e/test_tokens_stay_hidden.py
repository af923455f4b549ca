"""A token is in its file, in a header, and nowhere else: no argument of a process, no log, no database, no answer."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.e2e.faults.upstream import home_over, upstream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_tokens_are_in_no_argument_log_or_record(tmp_path: Path) -> None:
    with upstream() as server, home_over(server, tmp_path / "home") as reef:
        reef.start()
        tokens = {who: reef.token(who) for who in ("client", "owner")}
        answers = []
        for who, token in tokens.items():
            answers.append(reef.ask("hello").text)
            for path in (f"/v1/models?token={token}", f"/nothing/{token}", f"/reef/scenarios/{token}"):
                answers.append(reef.request("GET", path, who=who).text.replace(token, "") if token in path else "")
            wrong = {"authorization": f"Bearer {token}x", "x-request-id": token, "cookie": f"t={token}", "x-reef-tag-key": token}
            answers.append(reef.http.get(f"{reef.url}/v1/models", headers=wrong).text)
        assert reef.cli("status", "--json").returncode == 0
        lines = [" ".join(psutil.Process(reef.pid).cmdline())]
        lines += [" ".join(child.cmdline()) for child in psutil.Process(reef.pid).children(recursive=True)]
        reef.stop()
        kept = [path for path in reef.root.rglob("*") if path.is_file() and path.parent.name != "tokens"]
        assert any(path.name == "daemon.log" for path in kept)
        for who, token in tokens.items():
            assert not [line for line in (*lines, *answers, reef.output) if token in line], who
            assert not [path for path in kept if token.encode() in path.read_bytes()], who
