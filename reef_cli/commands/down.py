"""`reef down`: stop the daemon."""

from __future__ import annotations

import os
import signal
import time

from daemon.errors import Conflict, Forbidden
from reef_cli import output
from reef_cli.locations import home
from reef_cli.options import AsJSON
from reef_cli.progress import ProgressLine
from reef_cli.running import Running, find, is_daemon

_STOP_S = 60


def down(as_json: AsJSON = False) -> None:
    """Requests in flight are finished, and a run under way ends as failed; nothing that was recorded is lost.

    \b
    Examples:
      reef down
    """
    running = find(home())
    if running is not None:
        _stop(running)
    if as_json:
        output.print_json({"stopped": running is not None, "pid": running.pid if running else None})
    else:
        print(f"The daemon is stopped (process {running.pid})." if running else "No daemon runs.")


def _stop(running: Running) -> None:
    try:
        os.kill(running.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise Forbidden(f"Process {running.pid} belongs to another user.", "Stop it as that user.") from error
    line = ProgressLine()
    began = time.monotonic()
    while is_daemon(running.pid):
        waited = time.monotonic() - began
        if waited > _STOP_S:
            line.clear()
            raise Conflict(f"The daemon (process {running.pid}) did not stop within {_STOP_S} s.", f"End it: kill -9 {running.pid}")
        if waited > 1:
            line.update(f"Stopping: requests in flight finish … {waited:.0f} s")
        time.sleep(0.05)
    line.clear()
