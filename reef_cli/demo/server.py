"""A daemon of the demo's own: a temporary home, a free port, and an end with the demo."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from daemon.errors import EngineError
from daemon.paths import Home

_START_S = 120
_STOP_S = 20

_CONFIG = """\
# Written by `reef demo`. Runs start when the demo says so, not by themselves.
server: {port: 0}
engine: {model: embedded}
learn: {mode: manual}
"""


class DemoServer:
    """Use as a context manager; `base_url` and the tokens are there once it is entered."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self._process: subprocess.Popen[bytes] | None = None
        self.home = Home(Path(tempfile.mkdtemp(prefix="reef-demo-")))
        self.base_url = ""

    def __enter__(self) -> DemoServer:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()
        if not self._keep:
            shutil.rmtree(self.home.root, ignore_errors=True)

    @property
    def client_token(self) -> str:
        return self.home.client_token.read_text(encoding="utf-8").strip()

    @property
    def owner_token(self) -> str:
        return self.home.owner_token.read_text(encoding="utf-8").strip()

    @property
    def output(self) -> Path:
        """What the daemon printed; its log proper is `home.log`."""
        return self.home.root / "serve.out"

    def _start(self) -> None:
        # A demo must not depend on the settings of the home that the user works with.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REEF_")}
        environment["REEF_HOME"] = str(self.home.root)
        init = subprocess.run(
            [sys.executable, "-P", "-m", "reef_cli.main", "init", "--yes"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=False,
        )
        if init.returncode != 0:
            raise EngineError(f"`reef init --yes` failed: {(init.stderr or init.stdout).strip()}")
        self.home.config.write_text(_CONFIG, encoding="utf-8")
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "daemon", "serve", "--home", str(self.home.root)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo; it then stops the daemon in order
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise EngineError(f"The daemon ended at its start:\n{self.output.read_text(encoding='utf-8', errors='replace')[-2000:]}")
            if self._healthy():
                return
            time.sleep(0.1)
        raise EngineError(f"The daemon was not ready within {_START_S} s; see {self.home.log}.")

    def _healthy(self) -> bool:
        try:
            running = json.loads(self.home.lock.read_text(encoding="utf-8"))
            self.base_url = f"http://{running['host']}:{running['port']}"
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"{self.base_url}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, ValueError, KeyError, TypeError, urllib.error.URLError):
            return False

    def _stop(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
