"""Four clients at once over HTTP, here and at llama-cpp-python's own server, and what HTTP costs one stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import httpx

from benchmarks.engine_tools import Options, Row
from daemon.engine.llama.machine import physical_cores
from daemon.models import embedded_model
from tests.e2e.reef_home import ReefHome

_EXTRAS = "fastapi sse-starlette starlette-context pydantic-settings"
_CONTEXT = 2048
_START_S = 60.0
_PROMPT = "Write a story of ten chapters about a ferry on a wide river. This is reader {number}."


@dataclass
class _Stream:
    """One streamed chat completion, as a client sees it."""

    times: list[float] = field(default_factory=list)
    text: str = ""
    finish_reason: str = ""
    done: bool = False
    failure: str = ""

    @property
    def complete(self) -> bool:
        return self.done and self.finish_reason in ("stop", "length") and not self.failure

    @property
    def tokens_per_s(self) -> float:
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])


@dataclass(frozen=True)
class _Server:
    url: str
    model: str
    headers: dict[str, str]


@contextlib.contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def _reef(options: Options) -> AsyncIterator[_Server]:
    config = f"server: {{port: 0}}\nlearn: {{mode: manual}}\nengine: {{context: {_CONTEXT}}}\n"
    home = await asyncio.to_thread(ReefHome, options.scratch / "home", config)
    with home:
        await asyncio.to_thread(home.start)
        yield _Server(home.url, home.model, {"authorization": f"Bearer {home.token('client')}"})
        await asyncio.to_thread(home.stop)


@contextlib.asynccontextmanager
async def _theirs(options: Options) -> AsyncIterator[_Server | None]:
    """llama-cpp-python's server with the same model, threads and window; None where its extras are not installed."""
    path = [str(options.server_packages)] if options.server_packages else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path + [entry for entry in [os.environ.get("PYTHONPATH", "")] if entry])}
    probe = [sys.executable, "-c", "import llama_cpp.server.app"]
    if (await asyncio.to_thread(subprocess.run, probe, capture_output=True, env=environment, check=False)).returncode != 0:
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(embedded_model()), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--n_ctx", str(_CONTEXT), "--n_threads", str(physical_cores()), "--n_threads_batch", str(physical_cores())]
    with _running(command, environment):
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(trust_env=False) as client:
            deadline = time.monotonic() + _START_S
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(f"{url}/v1/models", timeout=2)).status_code == 200:
                        break
                if time.monotonic() > deadline:
                    raise RuntimeError("llama-cpp-python's server did not start")
                await asyncio.sleep(0.2)
        yield _Server(url, "model", {})


async def _stream(server: _Server, client: httpx.AsyncClient, number: int, max_tokens: int) -> _Stream:
    seen = _Stream()
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": _PROMPT.format(number=number)}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": True,
    }
    try:
        async with client.stream("POST", f"{server.url}/v1/chat/completions", json=body, headers=server.headers, timeout=60) as response:
            if response.status_code != 200:
                seen.failure = f"status {response.status_code}"
                return seen
            async for line in response.aiter_lines():
                if line == "data: [DONE]":
                    seen.done = True
                elif line.startswith("data: "):
                    _take(seen, json.loads(line[6:]))
    except (httpx.HTTPError, ValueError) as error:
        seen.failure = type(error).__name__
    return seen


def _take(seen: _Stream, chunk: object) -> None:
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    if not isinstance(choices, list) or not choices:
        if isinstance(chunk, dict) and "error" in chunk:
            seen.failure = "an error event"
        return
    content = choices[0]["delta"].get("content")
    if content:
        seen.text += content
        seen.times.append(time.perf_counter())
    seen.finish_reason = choices[0].get("finish_reason") or seen.finish_reason


async def _four(server: _Server, max_tokens: int) -> tuple[list[_Stream], float]:
    """Four streams that start 0.3 s after one another, as clients do, and how long all took."""

    async def later(number: int) -> _Stream:
        await asyncio.sleep(0.3 * number)
        return await _stream(server, client, number, max_tokens)

    async with httpx.AsyncClient(trust_env=False) as client:
        began = time.perf_counter()
        streams = await asyncio.gather(*(later(number) for number in range(4)))
        return streams, time.perf_counter() - began


async def _one(server: _Server, max_tokens: int, rounds: int) -> float:
    async with httpx.AsyncClient(trust_env=False) as client:
        await _stream(server, client, 9, 4)
        return statistics.median([(await _stream(server, client, 9, max_tokens)).tokens_per_s for _ in range(rounds)])


async def four_clients(options: Options) -> list[Row]:
    """All complete here; how many there. Each server is asked alone, ours first."""
    tokens, rounds = (48, 1) if options.quick else (96, 3)
    what = "4 clients at once over HTTP: streams that complete"
    async with _reef(options) as server:
        ours, our_s = await _four(server, tokens)
        our_speed = await _one(server, tokens, rounds)
    complete = sum(stream.complete for stream in ours)
    async with _theirs(options) as other:
        if other is None:
            hint = f"not measured: pip install --target DIR {_EXTRAS}, then --server-packages DIR"
            return [Row(what, "llama-cpp-python's own server", f"{complete} of 4", hint, "-", "all", complete == 4)]
        theirs, their_s = await _four(other, tokens)
        their_speed = await _one(other, tokens, rounds)
    there = sum(stream.complete for stream in theirs)
    ends = [stream.failure or stream.finish_reason or "cut off" for stream in theirs]
    return [
        Row(
            what,
            "llama-cpp-python's own server",
            f"{complete} of 4, in {our_s:.1f} s",
            f"{there} of 4, in {their_s:.1f} s",
            f"{complete} against {there}",
            "all",
            complete == 4,
            {"ends_there": [*ends], "texts_there": [len(stream.text) for stream in theirs]},
        ),
        Row(
            "one stream over HTTP, its record kept",
            "llama-cpp-python's own server",
            f"{our_speed:.0f} tokens/s",
            f"{their_speed:.0f} tokens/s",
            f"{our_speed / their_speed:.2f}",
        ),
    ]
