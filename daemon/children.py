"""Child processes of the daemon: engine worker, run process, trainer.

A child is started as `python -P -m MODULE ARGS…` in a session of its own, with a small environment that holds no
token. It exchanges JSON objects with us, one a line, over its stdin and stdout; stderr goes to a log file. It dies
with the daemon: the kernel kills it on Linux (`daemon.child_main.prepare`), and everywhere its stdin ends.

What it sends is read message by message (`Child.messages`), or handed to a `Receiver` in the very turn of the event loop in which it
comes: a turn of the loop less for each token of a reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from daemon.errors import DataError, EngineError
from daemon.marked import RUN_MARK
from daemon.records import JSONObject

_LINE_LIMIT_BYTES = 256 << 20
_LOG_LIMIT_BYTES = 8 << 20
_LOOK_S = 0.2

_PASSED = {
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    RUN_MARK,
}
_PASSED_PREFIXES = ("LC_", "OPENBLAS_", "OMP_", "GOMP_", "MKL_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HF_", "TORCH_", "GGML_", "COVERAGE_")
_SECRET_PARTS = ("TOKEN", "SECRET", "PASSWORD", "API_KEY", "ACCESS_KEY")


class ChildGone(EngineError):
    """The child has ended or closed its stdin: what was sent did not arrive."""


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that a child is given: an allow-list without secrets, then `extra`."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if (name in _PASSED or name.startswith(_PASSED_PREFIXES)) and not any(part in name for part in _SECRET_PARTS)
    }
    return {**passed, "PYTHONUNBUFFERED": "1", **(extra or {})}


def signal_group(pid: int, number: signal.Signals) -> bool:
    """Send a signal to the process group that `pid` leads; False if there is none any more."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS answers so for a group that holds only zombies
        return False
    return True


def _no_number(_name: str) -> None:
    """NaN and the infinities, such as the loss of a training that diverged, become null: JSON cannot hold them on their way out."""


_decode = json.JSONDecoder(parse_constant=_no_number).decode


def _message(line: bytes, module: str, log: Path) -> JSONObject:
    """Raises DataError for a line that is not a JSON object."""
    try:
        message = _decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{module} sent a line that is no message.", f"Its log is {log}.") from error
    if not isinstance(message, dict):
        raise DataError(f"{module} sent a line that is no message.", f"Its log is {log}.")
    return message


def _open_log(log: Path) -> BinaryIO:
    """Open for appending; a log that has grown large is set aside first, so that two files bound the disk use."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
        log.replace(log.with_name(log.name + ".1"))
    return log.open("ab")


class Receiver(ABC):
    """Takes a child's messages as they come. Must be quick: the event loop waits for it."""

    @abstractmethod
    def take(self, message: JSONObject) -> None:
        """Whatever it raises ends `Child.delivered`."""


class _Lines(asyncio.Protocol):
    """Cuts what comes through a pipe into lines, and hands the messages in them on."""

    def __init__(self, receiver: Receiver, module: str, log: Path) -> None:
        self._receiver = receiver
        self._module = module
        self._log = log
        self._parts: list[bytes] = []  # of a line that has not ended
        self._size = 0
        self._failure: Exception | None = None
        self._transport: asyncio.BaseTransport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            lines = data.split(b"\n")
            if len(lines) > 1:
                lines[0] = b"".join((*self._parts, lines[0]))
                self._parts, self._size = [], 0
            if rest := lines.pop():
                self._parts.append(rest)
                self._size += len(rest)
                if self._size > _LINE_LIMIT_BYTES:
                    raise DataError(f"{self._module} sent a line without end.", f"Its log is {self._log}.")
            for line in lines:
                self._receiver.take(_message(line, self._module, self._log))
        except Exception as error:  # noqa: BLE001 -- the top of this callback: who waits for the child's end is told
            self._failure = error
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.ended.done():
            return
        if self._failure is not None:
            self.ended.set_exception(self._failure)
        else:
            self.ended.set_result(None)  # also in the middle of a line: it was killed

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _connect(lines: _Lines) -> tuple[_Lines, int]:
    """A pipe that `lines` reads, and its other end."""
    ours, theirs = os.pipe()
    await asyncio.get_running_loop().connect_read_pipe(lambda: lines, os.fdopen(ours, "rb", 0))
    return lines, theirs


class Child:
    """One running child. Made by `Child.start`."""

    def __init__(self, process: asyncio.subprocess.Process, module: str, log: Path, lines: _Lines | None) -> None:
        self._process = process
        self._module = module
        self._lines = lines
        self.pid = process.pid
        self.log = log

    @classmethod
    async def start(
        cls,
        module: str,
        args: Sequence[str],
        *,
        log: Path,
        nice: int = 0,
        env: Mapping[str, str] | None = None,
        receiver: Receiver | None = None,
    ) -> Child:
        """Start `python -P -m module args…`; its group id equals its process id. `receiver` takes its messages, or `messages` yields them.

        Start it from a thread that lives as long as the child may: on Linux the kernel ties a child's life to the thread that forked it.

        Raises:
            EngineError: the interpreter or the log file cannot be opened.
        """
        lines, out = (None, asyncio.subprocess.PIPE) if receiver is None else await _connect(_Lines(receiver, module, log))
        try:
            with _open_log(log) as stderr:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",
                    "-m",
                    module,
                    *args,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=out,
                    stderr=stderr,
                    env={**child_environment(env), "REEF_PARENT_PID": str(os.getpid())},
                    start_new_session=True,
                    limit=_LINE_LIMIT_BYTES,
                )
        except OSError as error:
            if lines is not None:
                lines.close()
            raise EngineError(f"Cannot start {module}: {error.strerror or error}.", f"Check {log.parent} and free memory.") from error
        finally:
            if lines is not None:
                os.close(out)  # the child has its own: when it ends, so does what we read
        if nice:
            # At once, before its imports start threads of their own; they inherit it.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, nice)
        return cls(process, module, log, lines)

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative: the number of the signal that ended it."""
        return self._process.returncode

    async def send(self, message: JSONObject) -> None:
        """Send one JSON object.

        Raises:
            ChildGone: the child has ended.
        """
        stdin = self._process.stdin
        if stdin is None or stdin.is_closing() or self._process.returncode is not None:
            raise ChildGone(f"{self._module} has ended.", f"Its log is {self.log}.")
        try:
            stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await stdin.drain()
        except (OSError, RuntimeError) as error:  # RuntimeError: the transport was closed meanwhile
            raise ChildGone(f"{self._module} has ended.", f"Its log is {self.log}.") from error

    async def messages(self) -> AsyncIterator[JSONObject]:
        """Yield what the child sends, until it closes its stdout.

        Raises:
            DataError: a line is not a JSON object.
        """
        stdout = self._process.stdout
        if stdout is None:
            return
        while True:
            try:
                line = await stdout.readline()
            except ValueError as error:  # longer than the limit
                raise DataError(f"{self._module} sent a line that is no message.", f"Its log is {self.log}.") from error
            if not line.endswith(b"\n"):  # ended in the middle of a line: killed
                return
            yield _message(line, self._module, self.log)

    async def delivered(self) -> None:
        """Return once the child has closed its stdout, with all messages taken.

        Raises:
            DataError: a line is not a JSON object. And whatever its receiver raises.
        """
        if self._lines is not None:
            await asyncio.shield(self._lines.ended)

    async def wait(self) -> int:
        """Wait until it has ended; returns its exit code (negative: the signal)."""
        while (code := self._process.returncode) is None:
            with contextlib.suppress(TimeoutError):  # asyncio may wait for the end of its stdout, which what it has started can hold open
                await asyncio.wait_for(self._process.wait(), _LOOK_S)
        return code

    def suspend(self) -> None:
        """Stop its whole group where it stands."""
        signal_group(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        signal_group(self.pid, signal.SIGCONT)

    def close_stdin(self) -> None:
        """Tell a child that reads messages that there are no more."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.close()

    async def terminate(self, grace_s: float = 5) -> None:
        """End it and its group: SIGTERM, and after `grace_s` SIGKILL. Harmless if it has ended."""
        self.close_stdin()
        if self._lines is not None:
            self._lines.close()
        if self._process.returncode is None:
            signal_group(self.pid, signal.SIGTERM)
            signal_group(self.pid, signal.SIGCONT)  # a stopped process takes no SIGTERM
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace_s)
        signal_group(self.pid, signal.SIGKILL)
        await self.wait()
