"""A child talks in whole messages, holds no secret, can be stopped and resumed, and never outlives its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daemon.children import Child, ChildGone, Receiver, child_environment
from daemon.errors import DataError
from daemon.records import JSONObject

MODULE = "tests.engine.child_echo"
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2])}


async def _start(tmp_path: Path, *args: str, nice: int = 0) -> tuple[Child, JSONObject]:
    child = await Child.start(MODULE, args, log=tmp_path / "child.log", nice=nice, env=ENVIRONMENT)
    return child, await anext(child.messages())


def _state(pid: int) -> str:
    """R, S, T, Z … as the kernel names it; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return ""


def _alive(pid: int) -> bool:
    return _state(pid) not in ("", "Z")


async def test_messages_go_both_ways_and_prints_go_to_the_log(tmp_path: Path) -> None:
    child, _ = await _start(tmp_path, nice=3)
    await child.send({"text": "für\nalle", "size": "x" * 300_000})
    reply = await anext(child.messages())
    assert reply["echo"] == {"text": "für\nalle", "size": "x" * 300_000}
    await child.send({"type": "priority"})  # once `start` has returned: its hello may come before we have lowered it
    assert (await anext(child.messages()))["nice"] == 3
    child.close_stdin()
    assert await child.wait() == 0
    assert "stray print" in (tmp_path / "child.log").read_text()


async def test_no_token_reaches_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "OPENAI_API_KEY", "REEF_OWNER", "CUDA_SECRET"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert "s3cret" not in child_environment().values()
    assert child_environment()["OMP_NUM_THREADS"] == "2"


async def test_a_crash_ends_the_messages_and_a_later_send_says_so(tmp_path: Path) -> None:
    child, _ = await _start(tmp_path)
    await child.send({"type": "crash"})
    assert [message async for message in child.messages()] == []
    assert await child.wait() == -signal.SIGKILL
    with pytest.raises(ChildGone):
        await child.send({})


async def test_a_stopped_child_does_nothing_until_resumed(tmp_path: Path) -> None:
    child, _ = await _start(tmp_path)
    await child.send({"type": "count", "to": 30})
    await anext(child.messages())
    child.suspend()
    await asyncio.sleep(0.1)
    if sys.platform == "linux":
        assert _state(child.pid) == "T"
    child.resume()
    child.close_stdin()
    assert [m["value"] async for m in child.messages()][-1] == 29
    await child.terminate()


async def test_a_number_that_json_cannot_hold_arrives_as_null(tmp_path: Path) -> None:
    child, _ = await _start(tmp_path)
    await child.send({"loss": float("nan"), "step": 3})
    assert (await anext(child.messages()))["echo"] == {"loss": None, "step": 3}
    await child.terminate()


async def test_a_line_that_is_no_message_ends_the_child_so_that_nobody_waits_for_its_answer(tmp_path: Path) -> None:
    child, _ = await _start(tmp_path)
    process = child._process
    assert process.stdin is not None
    process.stdin.write(b"{broken\n")
    assert [message async for message in child.messages()] == []
    assert await child.wait() == 70
    assert "no message" in child.log.read_text()


async def test_terminate_ends_a_stopped_child_that_ignores_sigterm_and_its_own_children(tmp_path: Path) -> None:
    child, _ = await _start(tmp_path, "--deaf")
    await child.send({"type": "grandchild"})
    grandchild = (await anext(child.messages()))["pid"]
    assert isinstance(grandchild, int)
    child.suspend()
    await child.terminate(grace_s=0.2)
    assert child.returncode == -signal.SIGKILL
    for _ in range(50):
        if not _alive(grandchild):
            break
        await asyncio.sleep(0.02)
    assert not _alive(grandchild)
    await child.terminate()  # a second time is harmless


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux's")
def test_a_stopped_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom daemon.children import Child\n"
        "async def main():\n"
        f"    child = await Child.start({MODULE!r}, [], log=Path({str(tmp_path / 'log')!r}), env={ENVIRONMENT!r})\n"
        "    await anext(child.messages())\n    child.suspend()\n    print(child.pid, flush=True)\n    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT})
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 5
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(pid)


class _Collector(Receiver):
    def __init__(self) -> None:
        self.taken: list[JSONObject] = []

    def take(self, message: JSONObject) -> None:
        self.taken.append(message)
        if message.get("value") == 99:
            raise DataError("Too much.")


async def _received(tmp_path: Path) -> tuple[Child, _Collector]:
    collector = _Collector()
    return await Child.start(MODULE, [], log=tmp_path / "child.log", env=ENVIRONMENT, receiver=collector), collector


async def test_a_receiver_is_handed_every_message_whole_and_hears_of_the_end(tmp_path: Path) -> None:
    child, collector = await _received(tmp_path)
    long = "ä" * 300_000  # comes in many pieces
    await child.send({"type": "count", "to": 5})
    await child.send({"text": long})
    child.close_stdin()
    await asyncio.wait_for(child.delivered(), 20)
    assert [message.get("value") for message in collector.taken[1:6]] == [0, 1, 2, 3, 4]
    assert collector.taken[6] == {"echo": {"text": long}}
    assert await child.wait() == 0


async def test_a_receiver_hears_of_a_child_that_is_killed(tmp_path: Path) -> None:
    child, collector = await _received(tmp_path)
    await child.send({"type": "crash"})
    await asyncio.wait_for(child.delivered(), 20)
    assert [message["type"] for message in collector.taken] == ["hello"]
    await child.terminate()
    assert child.returncode == -signal.SIGKILL


async def test_what_a_receiver_raises_reaches_who_waits(tmp_path: Path) -> None:
    child, _ = await _received(tmp_path)
    await child.send({"type": "count", "to": 200})
    with pytest.raises(DataError, match="Too much"):
        await asyncio.wait_for(child.delivered(), 20)
    await child.terminate(grace_s=0.1)
