"""A process of its own for what may compute or allocate for ever: the kernel ends it at its limits, and another is started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

from daemon.engine.llama.confined_main import OUT_OF_MEMORY
from daemon.records import JSONObject

_LIMIT_OF = {-signal.SIGPROF: "time", -signal.SIGALRM: "time", OUT_OF_MEMORY: "memory"}  # by exit code


class Ended(Exception):
    """The process is gone; `limit`: the one that ended it, time or memory, if one of them did."""

    def __init__(self, limit: str = "") -> None:
        super().__init__(limit)
        self.limit = limit


class ConfinedProcess:
    """One process that answers each message with one; one thread at a time.

    Args:
        module: run by `python -P -m`; its main confines itself by `confined_main`.
        name: for the log.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process else None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, in place of one that may still run. Raises OSError if the machine does not allow it."""
        self.close()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "REEF_PARENT_PID": str(os.getpid())},
        )

    def ask(self, message: JSONObject) -> JSONObject:
        """One message there, one back. Raises `Ended`, and then the process is gone."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise Ended
        try:
            process.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        except (OSError, ValueError):  # a broken pipe, or no whole line
            answer = None
        if isinstance(answer, dict):
            return answer
        self.close()
        code = process.returncode
        said = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        sys.stderr.write(f"The process for {self._name} ended with {said}.\n")
        raise Ended(_LIMIT_OF.get(code, ""))

    def close(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
