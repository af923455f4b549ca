"""Start the trainer on a job folder and follow it; for the run process, which never imports torch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from daemon.children import Child
from daemon.errors import DataError
from daemon.records import JSONObject
from daemon.training.job import TrainingResult, read_job, read_result

LOG_FILE = "trainer.log"


def run_job(folder: Path, on_event: Callable[[JSONObject], None], *, nice: int = 19) -> TrainingResult:
    """Train; blocks until the trainer has ended. Call it from the thread that lives as long as the training may.

    Events: first `{"type": "trainer", "pid": …}`, the leader of its own process group, for whoever suspends it while requests
    run; then `{"type": "step", "step", "steps", "loss", "tokens_per_s", …}` for each step. If `on_event` raises, the trainer is ended.

    Raises:
        ReefError: the trainer refused or failed, with its sentence, or was killed.
    """
    return asyncio.run(_run(folder, on_event, nice))


async def _run(folder: Path, on_event: Callable[[JSONObject], None], nice: int) -> TrainingResult:
    job, _ = read_job(folder)
    threads = str(job.threads)
    child = await Child.start(
        "daemon.training.trainer",
        [str(folder)],
        log=folder / LOG_FILE,
        nice=nice,
        env={"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"},
    )
    try:
        on_event({"type": "trainer", "pid": child.pid})
        async for message in child.messages():
            if message.get("type") == "step":
                on_event(message)
        code = await child.wait()
    finally:
        await child.terminate()
    if code < 0:
        raise DataError(f"The trainer was killed by signal {-code}.", f"Memory may have run out; its log is {folder / LOG_FILE}.")
    return read_result(folder)
