"""`reef up`: the daemon in the background."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from daemon.errors import EngineError, ReefError, StorageError
from daemon.paths import Home
from reef_cli import output
from reef_cli.commands.serve import ConfigFile, Port
from reef_cli.daemon_process import command, serve_arguments
from reef_cli.locations import client_settings, home
from reef_cli.options import AsJSON
from reef_cli.progress import ProgressLine
from reef_cli.running import Running, find

_START_S = 120


def up(config: ConfigFile = None, port: Port = None, as_json: AsJSON = False) -> None:
    """It returns once the daemon answers. If one runs already, it says who and changes nothing.

    \b
    Examples:
      reef up
      reef up -c serve.yaml
    """
    where = home()
    running = find(where)
    started = running is None
    if running is None:
        running = start(where, serve_arguments(config, port))
    if as_json:
        output.print_json({"started": started, "pid": running.pid, "url": running.url, "version": running.version})
        return
    print(f"The daemon {'runs' if started else 'already runs'}: process {running.pid} at {running.url}")
    if not started and (config or port):
        print("To start it with other settings: reef down, then reef up again")
    elif started:
        for label, value in client_settings(running.url, where):
            print(f"  {label:16} {value}")
        print("  See              reef status, reef logs")


def start(where: Home, arguments: list[str]) -> Running:
    """Start a daemon in the background; returns when it answers. Raises ReefError with what it said if it ends instead."""
    said = where.log.with_name("up.log")  # what it prints before its own log is open; a failed start is explained from it
    try:
        said.parent.mkdir(parents=True, exist_ok=True)
        with said.open("wb") as stream:
            child = subprocess.Popen(
                command("serve", where, arguments),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,  # it stays when this terminal closes
            )
    except OSError as error:
        hint = "Mend the permissions, or set REEF_HOME to a folder of yours."
        raise StorageError(f"Cannot write {said}: {error.strerror}.", hint) from error
    line = ProgressLine()
    began = told_at = time.monotonic()
    told = ""
    while time.monotonic() - told_at < _START_S:
        if child.poll() is not None:
            line.clear()
            raise _failed(said)
        running = find(where)
        if running is not None and running.pid == child.pid and _answers(running):
            line.clear()
            return running
        if (now := _told(said)) != told:  # it gets on: the limit counts from there
            told, told_at = now, time.monotonic()
        if time.monotonic() - began > 1:
            line.update(f"Starting: {told or 'loading the model'} … {time.monotonic() - began:.0f} s")
        time.sleep(0.05)
    line.clear()
    child.terminate()
    raise EngineError(f"The daemon was not ready within {_START_S} s and was stopped.", "See why: reef logs")


def _told(path: Path) -> str:
    """What the daemon says it is at, if its start takes long: the last such line."""
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.startswith("Starting: ")]
    return lines[-1].removeprefix("Starting: ").removesuffix(" …") if lines else ""


def _answers(running: Running) -> bool:
    import http.client

    connection = http.client.HTTPConnection(running.host.strip("[]"), running.port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _failed(path: Path) -> ReefError:
    """What the daemon printed before it ended: a sentence and a hint, or the last line of a traceback."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [index for index, line in enumerate(lines) if line.startswith("Error: ")]
    if not errors:
        last = lines[-1] if lines else "it said nothing"
        return ReefError(f"The daemon ended at its start: {last}", f"See more: {path} and reef logs; check everything: reef doctor")
    return ReefError(lines[errors[-1]].removeprefix("Error: "), " ".join(lines[errors[-1] + 1 : errors[-1] + 2]))
