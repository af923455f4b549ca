"""The child's side of `daemon.children`: read messages, send messages, die with the parent."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from daemon.records import JSONObject

_PR_SET_PDEATHSIG = 1
_BAD_MESSAGE = 70  # the exit code, EX_SOFTWARE
_send_lock = threading.Lock()
_out_descriptor = 1
_encode = json.JSONEncoder(separators=(",", ":")).encode


def prepare(nice: int = 0) -> None:
    """Call first in a child: be killed with the parent, lower the priority, keep stray prints out of the message stream.

    `nice` is a floor: a child that its parent has already made nicer stays so. Afterwards whatever prints to stdout goes to
    stderr, which is the log; only `send` reaches the parent.
    """
    global _out_descriptor
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have died before the line above: then nobody would ever kill us.
        expected = os.environ.get("REEF_PARENT_PID")
        if expected is not None and os.getppid() != int(expected):
            sys.exit(1)
    if os.getpriority(os.PRIO_PROCESS, 0) < nice:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)
    if _out_descriptor == 1:
        _out_descriptor = os.dup(1)
        os.dup2(2, 1)


def send(message: JSONObject) -> None:
    """Send one message to the parent; may be called from any thread. Exits quietly if the parent is gone."""
    send_all((message,))


def send_all(messages: Iterable[JSONObject]) -> None:
    """Send several in one go, in their order."""
    data = "".join(f"{_encode(message)}\n" for message in messages).encode()
    with _send_lock:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(_out_descriptor, view) :]
        except BrokenPipeError:
            os._exit(1)


def read_messages(stdin: BinaryIO | None = None) -> Iterator[JSONObject]:
    """Yield the parent's messages; ends when it closes our stdin or is gone.

    A line that is no JSON object ends the process: its sender waits for an answer, and our end is the only one that we can give.
    """
    for line in stdin or sys.stdin.buffer:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            sys.stderr.write(f"A line of {len(line)} bytes from the parent is no message.\n")
            sys.stderr.flush()
            os._exit(_BAD_MESSAGE)
        yield message


def exit_on_eof() -> None:
    """For a child that expects no messages: end the process, at once, when the parent closes our stdin or is gone."""

    def watch() -> None:
        # The descriptor, not `sys.stdin`: a thread that waits with its buffer locked makes the interpreter abort at its end.
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
