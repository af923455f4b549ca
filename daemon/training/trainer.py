"""The trainer process: `python -P -m daemon.training.trainer JOBFOLDER`.

A job folder in, a LoRA out; nothing else is touched. Messages on stdout, one JSON object a line: `step` (step, steps, loss,
tokens_per_s, and the objective's metrics), then `result` or `failed`. It ends with whoever started it.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from daemon.child_main import exit_on_eof, prepare, send
from daemon.errors import DataError, ReefError
from daemon.files import write_atomic
from daemon.plugin_path import search_also
from daemon.records import JSON, JSONObject
from daemon.training import job as files
from daemon.training.job import Sample, TrainingFailure, TrainingJob, TrainingResult, metrics_line, read_job

MICRO_BATCH_TOKENS = 1024
"""How many positions are computed at once; bounds the memory of activations."""
_LEAST_FILL = 0.75
_WARMUP_STEPS = 3
_GRADIENT_NORM = 1.0


def train(folder: Path, tell: Callable[[JSONObject], None]) -> TrainingResult:
    """Do the job in `folder`, telling of each step.

    Raises:
        ReefError: the job is refused or the loss leaves the numbers; nothing but `metrics.jsonl` is written then.
    """
    job, samples = read_job(folder)
    search_also(Path(path) for path in job.search_paths)
    os.environ["OMP_NUM_THREADS"] = str(job.threads)

    import torch

    from daemon.training.base_model import add_lora, load_base
    from daemon.training.objective import Batch, load_objective
    from daemon.training.policy import Policy
    from daemon.training.save import save_lora

    torch.set_num_threads(job.threads)
    objective = load_objective(job.objective, job.settings)
    base = load_base(job)
    model = add_lora(base, job.lora, job.seed)
    policy = Policy(model)
    _check_tokens(samples, policy.vocabulary)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=job.learning_rate, betas=(0.9, 0.99), weight_decay=0.0)
    started, started_cpu = time.monotonic(), time.process_time()
    cpu_limit_s = job.max_minutes * 60 * job.threads
    loss, metrics, stopped, step = math.nan, dict[str, float](), "done", 0
    with (folder / files.METRICS_FILE).open("w", encoding="utf-8") as log:
        for step, drawn in enumerate(itertools.islice(objective.steps(samples, job.batch_size, random.Random(job.seed)), job.steps), 1):
            before, read = time.monotonic(), policy.tokens_read
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(job, step)
            loss, metrics = 0.0, {}
            for part in micro_batches(drawn):
                share = objective.loss(policy, Batch(part, drawn))
                share.value.backward()  # type: ignore[no-untyped-call]
                loss += float(share.value.detach())
                for name, value in share.metrics.items():
                    metrics[name] = metrics.get(name, 0.0) + value
            if not math.isfinite(loss):
                raise DataError(f"The loss left the numbers at step {step}.", "Lower learning_rate.")
            torch.nn.utils.clip_grad_norm_(policy.parameters(), _GRADIENT_NORM)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            speed = (policy.tokens_read - read) / max(1e-9, time.monotonic() - before)
            log.write(json.dumps(metrics_line(step, loss, metrics)) + "\n")
            log.flush()
            shown: dict[str, JSON] = {**metrics}
            tell({"type": "step", "step": step, "steps": job.steps, "loss": loss, "tokens_per_s": round(speed, 1), **shown})
            if time.process_time() - started_cpu > cpu_limit_s and step < job.steps:
                stopped = "time"
                break
    if not step:
        raise DataError("The objective found no step to train in the samples.", "See which samples its steps() takes.")
    save_lora(folder, model, base.shape, job)
    result = TrainingResult(
        steps=step,
        stopped=stopped,
        loss=loss,
        metrics=metrics,
        tokens=policy.tokens_read,
        cpu_s=round(time.process_time() - started_cpu, 1),
        wall_s=round(time.monotonic() - started, 1),
        rank=job.lora.rank,
        alpha=job.lora.alpha,
        base_sha256=job.base_sha256,
    )
    write_atomic(folder / files.RESULT_FILE, result.model_dump_json(indent=1) + "\n")
    return result


def learning_rate(job: TrainingJob, step: int) -> float:
    """A short warm-up, then straight down towards zero. `step` counts from 1."""
    return job.learning_rate * min(1.0, step / _WARMUP_STEPS) * (1 - (step - 1) / job.steps)


def micro_batches(samples: Sequence[Sample], tokens: int = MICRO_BATCH_TOKENS) -> Iterator[tuple[Sample, ...]]:
    """Split a step into parts of one kind and of like lengths: at most `tokens` positions each, or one sample."""
    for kind in dict.fromkeys(sample.kind for sample in samples):
        waiting = sorted((sample for sample in samples if sample.kind == kind), key=lambda sample: -len(sample.tokens))
        part: list[Sample] = []
        for sample in waiting:
            width = len(part[0].tokens) if part else 0
            if part and (width * (len(part) + 1) > tokens or len(sample.tokens) < _LEAST_FILL * width):
                yield tuple(part)
                part = []
            part.append(sample)
        yield tuple(part)


def _check_tokens(samples: Sequence[Sample], vocabulary: int) -> None:
    for number, sample in enumerate(samples, 1):
        if not all(0 <= token < vocabulary for token in sample.tokens):
            raise DataError(f"Sample {number} has a token outside the vocabulary of {vocabulary}.", "It was recorded with another model.")


def main() -> int:
    prepare()
    exit_on_eof()
    folder = Path(sys.argv[1])
    try:
        result = train(folder, send)
    except ReefError as error:
        return _failed(folder, error.message, error.hint)
    except MemoryError:
        return _failed(folder, "Memory ran out while training.", "Close other programs, or serve a smaller model.")
    except Exception as error:  # noqa: BLE001 - the top of the process; an objective is a plugin and may raise anything
        traceback.print_exc()
        return _failed(folder, f"The training broke off: {type(error).__name__}: {error}", "Its log has the traceback.")
    send({"type": "result", **result.model_dump(mode="json")})
    return 0


def _failed(folder: Path, message: str, hint: str) -> int:
    write_atomic(folder / files.ERROR_FILE, TrainingFailure(message=message, hint=hint).model_dump_json() + "\n")
    send({"type": "failed", "message": message, "hint": hint})
    return 1


if __name__ == "__main__":
    sys.exit(main())
