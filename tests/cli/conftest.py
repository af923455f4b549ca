"""A command line under test: `reef("status")` runs it in this process; `daemon` is a listener that answers as one would."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from daemon import __version__
from daemon.paths import Home
from daemon.records import JSONObject
from reef_cli.error_handler import run
from reef_cli.main import build_app
from reef_cli.running import is_daemon


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def home(_no_real_home: Path) -> Home:
    return Home(_no_real_home / ".reef")


@pytest.fixture
def reef(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(build_app, arguments)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


@dataclass
class StandIn:
    """Answers what a test told it to, and remembers what it was asked."""

    answers: dict[str, tuple[int, JSONObject | str]] = field(default_factory=dict)
    asked: list[tuple[str, str, JSONObject, dict[str, str]]] = field(default_factory=list)

    def answer(self, route: str, body: JSONObject | str, status: int = 200) -> None:
        self.answers[route] = (status, body)


def looks_like_a_daemon() -> subprocess.Popen[bytes]:
    """A process that does nothing under a daemon's command line."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "-m", "daemon", "serve"])
    until = time.monotonic() + 10
    while not is_daemon(process.pid) and time.monotonic() < until:  # its command line is empty for a moment after it began
        time.sleep(0.001)
    return process


@pytest.fixture
def daemon(home: Home) -> Iterator[StandIn]:
    stand_in = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            stand_in.asked.append((self.command, self.path, body, {name.lower(): value for name, value in self.headers.items()}))
            missing: JSONObject = {"error": {"code": "not_found", "message": f"There is no {self.path}.", "hint": "Look again."}}
            status, answer = stand_in.answers.get(f"{self.command} {self.path.partition('?')[0]}", (404, missing))
            data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _reply

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    home.owner_token.parent.mkdir(parents=True)
    home.owner_token.write_text("reef-owner-secret\n")
    process = looks_like_a_daemon()
    home.lock.write_text(
        json.dumps({"pid": process.pid, "host": "127.0.0.1", "port": server.server_port, "version": __version__, "started_at": 1.0})
    )
    yield stand_in
    process.kill()
    process.wait()
    server.shutdown()
    server.server_close()
    thread.join()
