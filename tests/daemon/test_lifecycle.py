"""Starting, stopping, crashing and reconfiguring a daemon, as its owner sees it."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from daemon.config_load import load
from daemon.errors import ConfigError, Conflict, StorageError
from daemon.gateway.security import Names
from daemon.harness.hints import with_hints
from daemon.instance import Instance
from daemon.lifecycle import background
from daemon.listener import bind
from daemon.paths import Home
from daemon.serving_hints import ServingHints
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from daemon.watching import ConfigSource, reload, watch
from tests.daemon.running import running, until
from tests.engine.fake import ScriptedEngine

SETTINGS = "server: {{port: 0}}\nengine: {{kind: upstream, url: 'http://127.0.0.1:{port}/v1', model: nobody}}\nlearn: {{mode: manual}}\n"


class Upstream(BaseHTTPRequestHandler):
    """Just enough of a server for the daemon to start on."""

    def do_GET(self) -> None:
        data = b'{"object": "list", "data": [{"id": "nobody", "object": "model"}]}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def serve(root: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "daemon", "serve", "--home", str(root), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_ready(root: Path, process: subprocess.Popen[str]) -> str:
    for _ in range(600):
        assert process.poll() is None, process.communicate()
        try:
            facts = json.loads(Home(root).lock.read_text())
            url = f"http://{facts['host']}:{facts['port']}"
            if httpx.get(f"{url}/healthz", trust_env=False, verify=False, timeout=2).status_code == 200:
                return url
        except (OSError, ValueError, httpx.HTTPError):
            time.sleep(0.05)
    raise TimeoutError("the daemon did not become ready")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "home"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as upstream:
        threading.Thread(target=upstream.serve_forever, args=(0.01,), daemon=True).start()
        (folder / "config.yaml").write_text(SETTINGS.format(port=upstream.server_port))
        yield folder
        upstream.shutdown()


def test_a_second_start_says_who_runs_and_a_signal_ends_the_first_cleanly(root: Path) -> None:
    first = serve(root)
    try:
        url = wait_ready(root, first)
        second = serve(root)
        _, said = second.communicate(timeout=30)
        assert second.returncode == 1
        assert str(first.pid) in said and url in said and "Traceback" not in said
        first.send_signal(signal.SIGTERM)
        assert first.wait(timeout=30) == 0
        assert Home(root).lock.read_text() == ""
    finally:
        first.kill()
        first.communicate()


def test_after_kill_9_the_next_start_goes_on(root: Path) -> None:
    first = serve(root)
    wait_ready(root, first)
    first.kill()
    first.communicate()
    again = serve(root)
    try:
        wait_ready(root, again)
        command = [sys.executable, "-P", "-m", "daemon", "fsck", "--home", str(root)]
        check = subprocess.run(command, capture_output=True, text=True, check=False)
        assert check.returncode == 0 and "Everything holds." in check.stdout, check
    finally:
        again.send_signal(signal.SIGTERM)
        again.communicate(timeout=30)


def test_a_port_in_use_and_a_bad_setting_are_sentences(root: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = serve(root, "--port", str(taken.getsockname()[1]))
        _, said = process.communicate(timeout=30)
        assert process.returncode == 1 and "is in use" in said and "Traceback" not in said
    (root / "config.yaml").write_text("server:\n  prot: 1\n")
    process = serve(root)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1 and "config.yaml:2" in said and "port" in said


def test_two_daemons_started_at_once_leave_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with Instance(home) as instance:
        instance.announce({"pid": 42, "host": "127.0.0.1", "port": 8900})
        with pytest.raises(Conflict, match=r"pid 42 at http://127\.0\.0\.1:8900"):
            Instance(home)
    Instance(home).close()


def test_a_home_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        Instance(Home(tmp_path / "file" / "home"))


def test_a_start_on_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Instance(Home(tmp_path)) as instance:
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(StorageError, match="No space left on device"):
            instance.announce({"pid": 42})


async def test_a_changed_configuration_takes_effect_or_says_why_not(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        services, home = daemon.services, Home(tmp_path)
        names = Names("127.0.0.1", daemon.port)
        source = ConfigSource(home, None, {}, {}, tmp_path)
        home.config.write_text("learn: {idle_s: 7}\nserver: {allowed_origins: ['http://a.example']}\n")
        await reload(source, services, names)
        assert services.serving.idle_s == 7
        names.check(f"127.0.0.1:{daemon.port}", "http://a.example")
        assert services.warnings == []
        home.config.write_text("learn: {idle_s: soon}\n")
        await reload(source, services, names)
        assert services.serving.idle_s == 7
        warnings = (await daemon.client.get("/reef/status")).json()["warnings"]
        assert len(warnings) == 1 and "config.yaml:1" in warnings[0] and "the old one stands" in warnings[0]
        home.config.write_text("engine: {streams: 2}\n")
        await reload(source, services, names)
        for _ in range(2):  # the warning stays for as long as the restart is needed
            assert any("engine" in warning and "restart" in warning for warning in services.warnings)
            home.config.write_text("engine: {streams: 2}\nlearn: {idle_s: 9}\n")
            await reload(source, services, names)
        assert services.serving.idle_s == 9
        home.config.write_text("scenarios: {pi: {storage: {redact: false}}}\n")
        await reload(source, services, names)
        assert any("scenarios" in warning and "restart" in warning for warning in services.warnings)


async def test_the_home_folder_is_watched(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        source = ConfigSource(Home(tmp_path), None, {}, {}, tmp_path)
        watching = asyncio.create_task(watch(source, daemon.services, Names("127.0.0.1", daemon.port)))
        await asyncio.sleep(0.5)
        Home(tmp_path).config.write_text("learn: {idle_s: 11}\n")
        await until(lambda: daemon.services.serving.idle_s == 11)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_what_fails_beside_the_requests_is_shown_in_the_status(tmp_path: Path) -> None:
    async def broken() -> None:
        raise OSError("no more watches")

    async with running(tmp_path) as daemon:
        task = background("Watching the configuration", broken(), daemon.services)
        await asyncio.gather(task, return_exceptions=True)
        [warning] = (await daemon.client.get("/reef/status")).json()["warnings"]
        assert "Watching the configuration" in warning and "no more watches" in warning and "reef up" in warning
        assert (await daemon.chat("x")).status_code == 200


async def test_another_base_model_serves_without_the_old_hints_being_lost(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await daemon.chat("x")
    other = ScriptedEngine()
    other._model = dataclasses.replace(other.model, id="scripted", sha256="ab" * 32)
    async with running(tmp_path, other) as daemon:
        head = daemon.services.repository.head("default")
        assert head is not None and head.manifest.operation == "recovery" and head.manifest.base.sha256 == "ab" * 32
        assert (await daemon.chat("y")).headers["x-reef-release-id"] == head.id


async def test_what_the_log_lost_is_repaired_from_the_manifests(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await daemon.chat("x")
    for name in ("experience.db", "experience.db-wal", "experience.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    async with running(tmp_path) as daemon:
        [row] = daemon.services.log.list("default")
        assert row.after == "r1" and row.detail == {"repaired": True}
        assert (await daemon.chat("y")).status_code == 200


def test_a_listener_on_a_foreign_address_is_refused(tmp_path: Path) -> None:
    loaded = load(Home(tmp_path), None, {}, {"server.host": "192.0.2.1", "server.expose": True})
    with pytest.raises(ConfigError, match="Cannot listen"):
        bind(loaded.config.server)


async def test_a_run_whose_release_stands_is_not_called_failed_after_a_crash(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        services = daemon.services
        for run_id in ("run_published", "run_cut"):
            await asyncio.wrap_future(services.runs.create("default", "demos", run_id=run_id))
        head = services.repository.head("default")
        assert head is not None
        hints = with_hints(head.tree, ServingHints(system_prefix="Be brief."))
        draft = Draft("default", Operation.TRAINING, head.manifest.base, hints, run_id="run_published", verdict="promoted: better")
        release = await services.publisher.publish(draft, head.id)
    async with running(tmp_path) as daemon:
        published, cut = daemon.services.runs.get("run_published"), daemon.services.runs.get("run_cut")
        assert (published.status, published.verdict, published.sentence) == ("done", "promoted", "better")
        assert published.release_id == release.id and cut.status == "failed"


async def test_a_setting_that_somebody_edits_is_in_the_operation_log(tmp_path: Path) -> None:
    """Once for each scenario for which it changed, by its name, and only what a running daemon takes over."""
    async with running(tmp_path, settings={"learn.mode": "auto"}) as daemon:
        services = daemon.services
        await services.scenarios.ensure("pi")
        services.loaded = load(services.home, None, {}, {})
        source, names = ConfigSource(services.home, None, {}, {}, tmp_path), Names("127.0.0.1", daemon.port)
        services.home.config.write_text(
            "learn: {idle_s: 20}\nserver: {port: 7}\nscenarios: {pi: {reef: {note: long, words: " + "x" * 300 + "}}}\n"
        )
        await reload(source, services, names)
        await reload(source, services, names)
        rows = [(one.scenario, one.who, one.before, one.detail) for one in services.log.list(limit=50) if one.operation == "settings"]
        pi = [detail for scenario, _, _, detail in rows if scenario == "pi"]
        assert [row for row in rows if row[0] == "default"] == [
            ("default", "settings file", "r1", {"setting": "learn.idle_s", "before": 300, "after": 20})
        ]
        assert {detail["setting"] for detail in pi} >= {"learn.idle_s"} and all(len(str(detail["after"])) < 250 for detail in pi)
