"""The real pi, from npm with a Node of its own, answers a prompt through the daemon; Reef records one session of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.pi.adapter import PiAdapter
from adapters.pi.runtime import PI_VERSION
from daemon.errors import Unsupported
from daemon.harness.adapter import HeadlessTask, InstallContext, find_adapter
from tests.e2e.reef_home import MANUAL, ReefHome

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]


@pytest.fixture(scope="module")
def reef(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReefHome]:
    with ReefHome(tmp_path_factory.mktemp("pi") / "home", MANUAL) as running:
        running.start()
        done = running.cli("install", "pi")
        assert done.returncode == 0, done.stdout + done.stderr
        PiAdapter().install(context(running))
        yield running


def context(reef: ReefHome) -> InstallContext:
    return InstallContext(
        home=reef.home.agents / "pi",
        base_url=reef.url,
        client_token_path=reef.home.client_token,
        model_id=reef.model,
        context_tokens=8192,
        max_tokens=48,  # a small model talks on; the test needs no long replies
        scenario="pi",
    )


def plain_environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}


def test_installed_from_npm_in_the_homes_own_folder(reef: ReefHome) -> None:
    adapter = find_adapter("pi")
    assert isinstance(adapter, PiAdapter)
    found = adapter.detect(context(reef))
    assert found is not None and found.version == PI_VERSION and found.supported
    written = "".join(path.read_text() for path in (reef.home.agents / "pi" / "agent").glob("*.json"))
    assert reef.token("client") not in written and reef.token("owner") not in written
    assert str(reef.home.owner_token) not in written, "an agent must not even know where the owner's token lies"


def test_piped_into_a_shell_as_printed_it_installs_the_same_again(reef: ReefHome, tmp_path: Path) -> None:
    installed = reef.home.agents / "pi" / "installed.json"
    stamp = installed.stat().st_mtime_ns
    command = f"curl -fsS -H \"Authorization: Bearer $REEF_TOKEN\" '{reef.url}/reef/harness/install?adapter=pi' | bash"
    environment = {**plain_environment(tmp_path), "REEF_TOKEN": reef.token("client")}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "is installed in" in done.stdout, done.stdout + done.stderr
    assert installed.stat().st_mtime_ns != stamp


def test_a_prompt_typed_with_the_launcher_becomes_one_session(reef: ReefHome, tmp_path: Path) -> None:
    launcher = reef.home.agents / "pi" / "bin" / "reef-pi"
    assert launcher.stat().st_mode & stat.S_IXUSR
    answer = subprocess.run(
        [str(launcher), "-p", "What is the capital of Portugal?"],
        cwd=tmp_path,
        env=plain_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    # A small model's reply ends by itself or at the limit that is set above; pi says the second with exit code 1.
    truncated = "output token limit" in answer.stderr
    assert answer.returncode == int(truncated), answer.stderr
    assert answer.stdout.strip()
    sessions = reef.get("/reef/scenarios/pi/sessions")["sessions"]
    assert len(sessions) == 1, "one conversation must be one session"
    identity = sessions[0].get("session") or sessions[0]["id"]
    shown = json.dumps(reef.get(f"/reef/scenarios/pi/sessions/{identity}"), ensure_ascii=False)
    assert "capital of Portugal" in shown and "coding assistant" in shown
    assert f'"finish_reason": "{"length" if truncated else "stop"}"' in shown, "what pi was told is what was recorded"
    prompts = [int(count) for count in re.findall(r'"prompt_tokens": (\d+)', shown)]
    assert max(prompts) > 1000, "the model is shown pi's tools, though its template knows none"
    assert list((reef.home.agents / "pi" / "agent" / "sessions").rglob("*.jsonl")), "pi keeps its own transcript beside its settings"


def test_a_daemon_at_another_port_is_taken_over_when_pi_is_started(reef: ReefHome, tmp_path: Path) -> None:
    launcher = reef.home.agents / "pi" / "bin" / "reef-pi"
    rules = reef.home.agents / "pi" / "agent" / "AGENTS.md"

    def told() -> str:
        environment = plain_environment(tmp_path)
        done = subprocess.run([str(launcher), "--version"], env=environment, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.strip() == PI_VERSION, "what pi says is all that is on stdout"
        return done.stderr

    told()  # the window that pi was told of above is not the served one
    rules.write_text("- A rule of mine.\n")
    reef.stop()
    reef.start()
    assert told() == f"pi coding agent is set up for {reef.model} (8,192 tokens) at {reef.url} now.\n"
    assert told() == "" and rules.read_text() == "- A rule of mine.\n"
    assert "AGENTS.md (added)" in reef.cli("status").stdout, "it is still the user's change"
    rules.unlink()
    PiAdapter().install(context(reef))  # short replies again


def test_a_task_without_a_person_gives_its_answer_and_its_receipts(reef: ReefHome, tmp_path: Path) -> None:
    task = HeadlessTask("Say hello.", tmp_path, timeout_s=240, session="headless-task-1", environment=plain_environment(tmp_path))
    outcome = PiAdapter().run_task(context(reef), task)
    assert outcome.exit_code == 0, (outcome.log, outcome.details)
    assert outcome.text
    response_ids = outcome.details["response_ids"]
    assert isinstance(response_ids, list) and response_ids
    receipt = "rec_" + str(response_ids[-1]).removeprefix("chatcmpl-")
    assert reef.request("GET", f"/reef/scenarios/pi/records/{receipt}").status_code == 200


def test_a_task_against_a_daemon_that_is_down_fails_though_pi_exits_with_0(reef: ReefHome, tmp_path: Path) -> None:
    adapter, elsewhere = PiAdapter(), tmp_path / "agents" / "pi"
    elsewhere.mkdir(parents=True)
    (elsewhere / "runtime").symlink_to(reef.home.agents / "pi" / "runtime")
    nobody = InstallContext(elsewhere, "http://127.0.0.1:9", reef.home.client_token, reef.model, 8192, 256, "pi")
    adapter.install(nobody)
    task = HeadlessTask("Say hello.", tmp_path, timeout_s=120, environment=plain_environment(tmp_path))
    outcome = adapter.run_task(nobody, task)
    assert outcome.exit_code != 0 and "onnection" in str(outcome.details["error"])


def test_a_window_too_small_for_an_agent_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    small = InstallContext(tmp_path / "pi", "http://127.0.0.1:9", tmp_path / "token", "small", 2048, 256, "pi")
    with pytest.raises(Unsupported, match="2048"):
        PiAdapter().install(small)
    assert not (tmp_path / "pi").exists()


def test_uninstalling_leaves_only_the_transcripts(reef: ReefHome) -> None:
    done = reef.cli("uninstall", "pi")
    assert done.returncode == 0, done.stdout + done.stderr
    left = [path.relative_to(reef.home.agents / "pi") for path in (reef.home.agents / "pi").rglob("*") if path.is_file()]
    assert all(path.parts[:2] == ("agent", "sessions") for path in left), left
    assert left, "conversations are the person's"
    assert reef.cli("uninstall", "pi", "--everything").returncode == 0
    assert not (reef.home.agents / "pi").exists()
