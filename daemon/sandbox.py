"""Runs a command that may be hostile or broken: a checker over what a model wrote.

It gets a working folder, a home folder that vanishes, an environment without secrets, limits of time, memory, processes, file size
and open files, and is killed with everything that it started. Under bubblewrap (where it is installed and works) it also has no
network, its own process table, and may write to nothing but its folder; without, it runs as the user, and a process that leaves its
group and rewrites its environment can stay: `isolation()` says which.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from daemon.marked import RUN_MARK, marked

_PASSED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", RUN_MARK)
_SECRET_PLACES = (".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".config/gh", ".kube", ".docker", ".mozilla", ".password-store")
_SECRET_FILES = (".netrc", ".git-credentials", ".npmrc", ".pypirc")
_OUTPUT_BYTES = 4096
_MARK = "SANDBOX_MARK"  # in the environment of everything that a command starts
# A limit that this shell or system does not know is left out rather than failing the command.
_LIMITS = (
    'ulimit -c 0; ulimit -t "$1" 2>/dev/null; ulimit -v "$2" 2>/dev/null; ulimit -f "$3" 2>/dev/null; ulimit -n "$4" 2>/dev/null; '
    'ulimit -u "$5" 2>/dev/null || ulimit -p "$5" 2>/dev/null; shift 5; exec "$@"'
)


@dataclass(frozen=True, slots=True)
class Limits:
    seconds: float = 60  # wall clock; processor time is held to the same
    memory_bytes: int = 8 << 30  # address space of each process; Node reserves several GiB that it never uses
    file_bytes: int = 256 << 20  # each file that it writes, its output included
    open_files: int = 256
    processes: int = 256  # processes and threads beyond those that the user runs already; not enforced for root


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the command ended."""

    exit_code: int  # negative: the number of the signal that ended it
    timed_out: bool
    output: str  # the last 4 KiB of stdout and stderr together
    seconds: float

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


@cache
def isolation() -> str:
    """`bubblewrap`, or `limits only` where it is not installed or may not make namespaces."""
    program = shutil.which("bwrap")
    if program is None:
        return "limits only"
    try:
        trial = subprocess.run(
            [program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "limits only"
    return "bubblewrap" if trial.returncode == 0 else "limits only"


def run(command: Sequence[str], folder: Path, *, stdin: bytes = b"", limits: Limits | None = None, hidden: Sequence[Path] = ()) -> Outcome:
    """Run `command` in `folder`; returns when it and everything that it started has ended.

    Args:
        folder: the working folder, the only place that it may write to (enforced under bubblewrap).
        hidden: files and folders that it must not read (under bubblewrap), such as Reef's own home.
    """
    limits = limits or Limits()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="reef-sandbox-") as scratch, tempfile.TemporaryFile() as output:
        home, mark = Path(scratch), secrets.token_hex(16)
        kibibytes, blocks = limits.memory_bytes // 1024, limits.file_bytes // 512
        processes = _processes_in_use() + limits.processes
        numbers = (max(1, round(limits.seconds) + 1), kibibytes, blocks, limits.open_files, processes)
        arguments = ["/bin/sh", "-c", _LIMITS, "sh", *(str(number) for number in numbers), *command]
        if isolation() == "bubblewrap":
            arguments = [*_bubblewrap(folder, home, hidden), *arguments]
        try:
            process = subprocess.Popen(
                arguments,
                cwd=folder,
                env={**_environment(home), _MARK: mark},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return Outcome(127, False, f"cannot be started: {error.strerror}", time.monotonic() - started)
        timed_out = False
        try:
            process.communicate(stdin, timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _kill_all(process, mark)
        output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_BYTES))
        text = output.read().decode(errors="replace")
        return Outcome(process.returncode, timed_out, text, time.monotonic() - started)


def _processes_in_use() -> int:
    """Processes and threads of this user: the kernel counts them against one limit."""
    user = os.getuid()
    found = [process.info for process in psutil.process_iter(["uids", "num_threads"])]
    return sum(info["num_threads"] or 1 for info in found if info["uids"] is not None and info["uids"].real == user)


def _environment(home: Path) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {"PATH": os.defpath, **passed, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}


def _bubblewrap(folder: Path, home: Path, hidden: Sequence[Path]) -> list[str]:
    user = Path.home()
    wrapped = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all"]
    wrapped += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for programs in _programs():  # what the command may be run by, should that lie in /tmp
        if Path("/tmp") in programs.parents:
            wrapped += ["--ro-bind-try", str(programs), str(programs)]
    for place in (*(user / name for name in (*_SECRET_PLACES, *_SECRET_FILES)), *hidden):
        if place.is_dir():
            wrapped += ["--tmpfs", str(place.resolve())]
        elif place.is_file():
            wrapped += ["--ro-bind", "/dev/null", str(place.resolve())]
    for place in (folder, home):  # last: they may lie inside what was hidden
        wrapped += ["--bind", str(place), str(place)]
    return [*wrapped, "--chdir", str(folder), "--"]


def _programs() -> list[Path]:
    places = (sys.base_prefix, sys.prefix, *os.environ.get("PATH", os.defpath).split(os.pathsep))
    return list(dict.fromkeys(Path(place).resolve() for place in places if place))


def _kill_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill the command, its group, its descendants, and what was orphaned in a group of its own; then reap it."""
    descendants: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        descendants = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if isolation() != "bubblewrap":  # there, all of it ends with its first process
        descendants += marked(_MARK, mark)
    for child in descendants:
        with contextlib.suppress(psutil.Error):
            child.kill()
    process.wait()
