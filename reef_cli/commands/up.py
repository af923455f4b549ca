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
from reef_cli.locations import home, shown
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
        running = _start(where, serve_arguments(config, port))
    if as_json:
        output.print_json({"started": started, "pid": running.pid, "url": running.url, "version": running.version})
        return
    print(f"The daemon {'runs' if started else 'already runs'}: process {running.pid} at {running.url}")
    if not started and (config or port):
        print("To start it with other settings: reef down, then reef up again")
    elif started:
        print(f"  OpenAI endpoint  {running.url}/v1")
        print(f"  API key          the text of {shown(where.client_token)}")
        print("  See              reef status, reef logs")


def _start(where: Home, arguments: list[str]) -> Running:
    log = where.log
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as stream:
            child = subprocess.Popen(
                command("serve", where, arguments),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,  # it stays when this terminal closes
            )
    except OSError as error:
        raise StorageError(
            f"Cannot write {log}: {error.strerror}.", "Mend the permissions, or set REEF_HOME to a folder of yours."
        ) from error
    line = ProgressLine()
    began = time.monotonic()
    while time.monotonic() - began < _START_S:
        if child.poll() is not None:
            line.clear()
            raise _failed(log, before)
        running = find(where)
        if running is not None and running.pid == child.pid and _answers(running):
            line.clear()
            return running
        if time.monotonic() - began > 1:
            line.update(f"Starting: loading the model … {time.monotonic() - began:.0f} s")
        time.sleep(0.05)
    line.clear()
    child.terminate()
    raise EngineError(f"The daemon was not ready within {_START_S} s and was stopped.", "See why: reef logs")


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


def _failed(log: Path, before: int) -> ReefError:
    """What the daemon said before it ended."""
    with log.open("rb") as stream:
        stream.seek(before)
        said = [line for line in stream.read(1 << 16).decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [index for index, line in enumerate(said) if line.startswith("Error:")]
    if errors:
        message, *rest = said[errors[-1] :]
        return ReefError(message.removeprefix("Error:").strip(), " ".join(part.strip() for part in rest[:2]))
    last = said[-1].strip() if said else "it said nothing"
    return ReefError(f"The daemon ended at its start: {last}", "See more: reef logs; check everything: reef doctor")
