"""Decode speed of a live stream with and without a training beside it, in one run.

    .venv/bin/python -m benchmarks.decode_while_training

Three ways, in turns: alone; with a training that is stopped while the request runs, as the daemon does; and, to show why it does,
with a training at nice 19 that is not stopped. Prints tokens/s (median) and the ratios to alone, which is measured before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import tempfile
import threading
import time
from pathlib import Path

from daemon.children import signal_group
from daemon.config import LlamaConfig
from daemon.engine.base import Delta, Engine, GenerateRequest
from daemon.engine.factory import make_engine
from daemon.engine.llama.machine import physical_cores
from daemon.errors import ReefError
from daemon.paths import Home
from daemon.records import JSONObject, Message, Sampling
from daemon.training.job import Sample, TrainingJob, write_job
from daemon.training.process import run_job

_PROMPT = "Describe a walk along a river, from its spring to the sea."
_TARGET = 0.9


class _Enough(Exception):
    """The measurement is over: end the training."""


class _Training:
    """A training in a thread of its own, which waits for the trainer process."""

    def __init__(self, folder: Path) -> None:
        self.pid = 0
        self.steps = 0
        self.first_step = threading.Event()
        self._enough = False
        self._thread = threading.Thread(target=self._run, args=(folder,))
        self._thread.start()

    def _run(self, folder: Path) -> None:
        try:
            run_job(folder, self._on_event)
        except (_Enough, ReefError) as error:
            if not self._enough:
                print(f"The training ended early: {error}")
        finally:
            self.first_step.set()

    def _on_event(self, event: JSONObject) -> None:
        pid = event.get("pid")
        if isinstance(pid, int):
            self.pid = pid
        elif event.get("type") == "step":
            self.steps += 1
            self.first_step.set()
            if self._enough:
                raise _Enough

    def running(self) -> bool:
        return self._thread.is_alive() and self.steps > 0

    def suspend(self) -> None:
        signal_group(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        signal_group(self.pid, signal.SIGCONT)

    def end(self) -> None:
        self._enough = True
        self.resume()
        if self.pid:
            signal_group(self.pid, signal.SIGTERM)
        self._thread.join()


async def speed(engine: Engine, tokens: int) -> float:
    """Tokens a second from the first to the last of one reply."""
    messages: tuple[Message, ...] = ({"role": "user", "content": _PROMPT},)
    times = [
        time.perf_counter()
        async for event in engine.generate(GenerateRequest(messages, Sampling(temperature=0), max_tokens=tokens))
        if isinstance(event, Delta)
    ]
    return (len(times) - 1) / (times[-1] - times[0])


async def write_training(engine: Engine, folder: Path) -> None:
    """A job of eight samples and more steps than the measurement lasts."""
    base = engine.model.path
    if base is None:
        raise SystemExit("The engine serves no local file.")
    samples = []
    for number in range(8):
        prompt = await engine.render(({"role": "user", "content": f"Write a commit message for change {number}."},))
        completion = await engine.tokenize(f"fix(part-{number}): mend what change {number} broke in the parser of long lines")
        samples.append(Sample(prompt=tuple(prompt), completion=tuple(completion)))
    job = TrainingJob(
        base=base,
        base_sha256=engine.model.sha256,
        objective="recipes.sft.objective:SFTObjective",
        steps=10_000,
        batch_size=2,
        threads=physical_cores(),
        max_minutes=5,
    )
    write_job(folder, job, samples)


async def measure(tokens: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"alone": [], "training stopped while it runs": [], "training at nice 19": []}
    with tempfile.TemporaryDirectory() as temporary:
        home = Home(Path(temporary))
        engine = make_engine(LlamaConfig(context=1024, streams=1), home)
        await engine.start()
        try:
            await speed(engine, 8)  # warm
            found["alone"] += [await speed(engine, tokens) for _ in range(rounds)]
            folder = home.root / "job"
            await write_training(engine, folder)
            training = _Training(folder)
            try:
                await asyncio.to_thread(training.first_step.wait)
                for _ in range(rounds):
                    if not training.running():
                        raise SystemExit("The training ended before the measurement.")
                    training.suspend()
                    found["training stopped while it runs"].append(await speed(engine, tokens))
                    training.resume()
                    await asyncio.sleep(0.5)
                    found["training at nice 19"].append(await speed(engine, tokens))
            finally:
                await asyncio.to_thread(training.end)
            found["alone"] += [await speed(engine, tokens) for _ in range(rounds)]
        finally:
            await engine.stop()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100, help="tokens of each reply")
    parser.add_argument("--rounds", type=int, default=6, help="replies of each kind (twice as many alone)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    found = asyncio.run(measure(arguments.tokens, arguments.rounds))
    alone = statistics.median(found["alone"])
    table = {
        name: {"tokens_per_s": statistics.median(values), "ratio": statistics.median(values) / alone} for name, values in found.items()
    }
    if arguments.json:
        print(json.dumps(table))
    else:
        for name, row in table.items():
            print(f"{name:32} {row['tokens_per_s']:7.1f} tokens/s   {row['ratio']:.2f}")
    return 0 if table["training stopped while it runs"]["ratio"] >= _TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
