"""What the rows of `benchmarks/engine.py` share: an engine to measure, one timed reply, prompts of a wanted length, and a row's result."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from daemon.config import LlamaConfig
from daemon.engine.base import Delta, Finished, GenerateRequest, LoRA
from daemon.engine.factory import make_engine
from daemon.engine.llama.engine import LlamaEngine
from daemon.paths import Home
from daemon.records import JSONObject, Message, Sampling

_SENTENCES = (
    "The river runs past the old mill and on to the sea.",
    "A ferry waits at the landing until the last bell has rung.",
    "Three boats were mended in the yard before the autumn storms.",
    "The keeper of the lighthouse writes down the wind every evening.",
    "Nets hang between the houses, and gulls sit on the posts.",
)
_THREAD_SETTINGS = ("GOMP_", "OMP_")


@dataclass(frozen=True)
class Options:
    quick: bool
    scratch: Path
    server_packages: Path | None


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    against: str
    here: str
    there: str
    result: str
    reach: str = ""
    held: bool | None = None  # None: information, or not measured
    figures: JSONObject = field(default_factory=dict)


@dataclass
class Reply:
    asked_at: float
    times: list[float] = field(default_factory=list)  # of each piece of text
    text: str = ""
    finished: Finished | None = None

    @property
    def first_s(self) -> float:
        return self.times[0] - self.asked_at

    def gaps(self, since: float = 0.0, until: float = math.inf) -> list[float]:
        """Seconds between neighbouring tokens, those that end within the span."""
        return [gap for _, gap in self.gaps_at(since, until)]

    def gaps_at(self, since: float, until: float) -> list[tuple[float, float]]:
        """The same, each with the moment of its end."""
        return [(later, later - earlier) for earlier, later in itertools.pairwise(self.times) if since < later <= until]


@contextlib.asynccontextmanager
async def engine_of(options: Options, name: str, **settings: int) -> AsyncIterator[LlamaEngine]:
    """A started engine with the embedded model, made as the daemon makes it."""
    engine = make_engine(LlamaConfig.model_validate(settings), Home(options.scratch / name))
    if not isinstance(engine, LlamaEngine):
        raise TypeError("the embedded engine is measured here")
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


def worker_process(engine: LlamaEngine) -> psutil.Process:
    if engine.worker_pid is None:
        raise RuntimeError("the engine's worker is not running")
    return psutil.Process(engine.worker_pid)


def thread_settings(engine: LlamaEngine) -> dict[str, str]:
    """The variables of the worker that say how its threads wait for one another."""
    return {name: value for name, value in worker_process(engine).environ().items() if name.startswith(_THREAD_SETTINGS)}


def filler(sentences: int, tag: str = "") -> str:
    """Plain text of about 13 tokens a sentence. Texts with different tags share no beginning."""
    return " ".join([tag, *(f"{number}. {_SENTENCES[number % len(_SENTENCES)]}" for number in range(1, sentences + 1))]).strip()


async def filler_of(engine: LlamaEngine, tokens: int, tag: str = "") -> str:
    """Text of about `tokens` tokens, at most 15 fewer."""
    each = len(await engine.tokenize(filler(100))) / 100
    sentences = max(1, int(tokens / each))
    while sentences > 1 and len(await engine.tokenize(filler(sentences, tag))) > tokens:
        sentences -= 1
    return filler(sentences, tag)


def user(text: str) -> tuple[Message, ...]:
    return ({"role": "user", "content": text},)


async def endless(engine: LlamaEngine) -> Sampling:
    """Greedy, and the model does not end its turn: a stream of known length."""
    ends = [tokens[0] for text in ("<|im_end|>", "<|endoftext|>") if len(tokens := await engine.tokenize(text, special=True)) == 1]
    return Sampling(temperature=0.0, logit_bias=tuple((token, -100.0) for token in ends))


async def ask(
    engine: LlamaEngine,
    messages: tuple[Message, ...],
    max_tokens: int,
    *,
    sampling: Sampling | None = None,
    lora: LoRA | None = None,
    session: str = "",
    text: str | None = None,
    reply: Reply | None = None,
) -> Reply:
    """One reply, with the time of each of its pieces. `text` is gone on with instead of messages; `reply` is filled, for who looks on."""
    request = GenerateRequest(messages, sampling or Sampling(temperature=0.0), max_tokens=max_tokens, text=text, lora=lora, session=session)
    reply = reply or Reply(0.0)
    reply.asked_at = time.perf_counter()
    async for event in engine.generate(request):
        if isinstance(event, Delta):
            reply.times.append(time.perf_counter())
            reply.text += event.text
        elif isinstance(event, Finished):
            reply.finished = event
    return reply


def together_tokens_per_s(replies: list[Reply]) -> float:
    """Tokens a second of all streams, while all of them flow. Raises RuntimeError if they hardly overlap."""
    began, ended = max(reply.times[0] for reply in replies), min(reply.times[-1] for reply in replies)
    tokens = 0.0
    for reply in replies:
        if reply.finished is None:
            raise RuntimeError("a stream did not end")
        pieces = sum(began < moment <= ended for moment in reply.times)
        tokens += pieces * reply.finished.usage.completion_tokens / len(reply.times)
        if pieces < len(reply.times) / 3:
            raise RuntimeError("the streams hardly overlap: nothing to compare")
    return tokens / (ended - began)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def settle(seconds: float = 0.3) -> None:
    """Let what was cancelled end."""
    await asyncio.sleep(seconds)
