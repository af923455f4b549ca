"""Conversations: what a turn reuses and how soon it answers, a LoRA published beside running streams, and the worker's memory."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass

from benchmarks.engine_tools import (
    Options,
    Reply,
    Row,
    ask,
    endless,
    engine_of,
    filler_of,
    settle,
    user,
    worker_process,
)
from daemon.engine.base import GenerateRequest, LoRA
from daemon.engine.llama.engine import LlamaEngine
from daemon.errors import ReefError
from daemon.gguf import read_header
from daemon.models import embedded_model
from daemon.records import JSONObject, Message, Sampling
from tests.engine.random_lora import write_random_lora

_SYSTEM_TOKENS, _RESULT_TOKENS, _COLD_TOKENS = 1100, 180, 3000


@dataclass(frozen=True)
class _Turn:
    prompt_tokens: int
    first_s: float
    missed_tokens: int  # of the prefix that it has in common with what the turn before left behind
    cache_miss: str


class _Conversation:
    """An agent's: a system prompt, then tool results and short replies, resent whole at each turn."""

    def __init__(self, engine: LlamaEngine, name: str, system: str, results: list[str]) -> None:
        self._engine = engine
        self._name = name
        self._results = results
        self._messages: list[Message] = [{"role": "system", "content": system}]
        self._held: list[int] = []  # the tokens of the last prompt and reply

    async def turn(self) -> _Turn:
        number = len(self._messages) // 2
        self._messages.append({"role": "user", "content": f"Result {number} of the tool: {self._results[number]}"})
        reply = await ask(self._engine, tuple(self._messages), 24, session=self._name)
        self._messages.append({"role": "assistant", "content": reply.text})
        if reply.finished is None or reply.finished.tokens is None:
            raise RuntimeError("a turn did not end")
        tokens = reply.finished.tokens
        common = 0
        for left, right in zip(self._held, tokens.prompt, strict=False):
            if left != right:
                break
            common += 1
        self._held = [*tokens.prompt, *tokens.completion]
        missed = common - reply.finished.usage.cached_tokens
        return _Turn(len(tokens.prompt), reply.first_s, missed, reply.finished.cache_miss)


async def conversation(options: Options) -> list[Row]:
    """Ten turns of one agent, and four agents on two places."""
    async with engine_of(options, "conversation", context=4096, streams=4) as engine:
        system = await filler_of(engine, _SYSTEM_TOKENS, "You are an agent that looks after a ferry.")
        results = [await filler_of(engine, _RESULT_TOKENS, f"Log {number}.") for number in range(10)]
        cold = [await _cold(engine, 0)]
        agent = _Conversation(engine, "ten-turns", system, results)
        turns = [await agent.turn() for _ in range(10)]
        cold.append(await _cold(engine, 1))
    cold_s = statistics.mean(first for first, _ in cold)
    later = turns[1:]
    missed = max(turn.missed_tokens for turn in later)
    slowest = max(later, key=lambda turn: turn.first_s)
    ratio = slowest.first_s / cold_s
    figures: JSONObject = {
        "turns": [[turn.prompt_tokens, round(turn.first_s, 3), turn.missed_tokens, turn.cache_miss] for turn in turns],
        "cold": [[tokens, round(first, 2)] for first, tokens in cold],
    }
    rows = [
        Row(
            f"ten turns of an agent, up to {turns[-1].prompt_tokens:,} tokens: read again of what the turn before left",
            "-",
            f"{missed} token{'' if missed == 1 else 's'} at most",
            "-",
            "-",
            "≤ 1",
            missed <= 1,
            figures,
        ),
        Row(
            f"time to first token of the slowest of turns 2 to 10, each with about {_RESULT_TOKENS + 20} new tokens",
            f"a cold prompt of {cold[0][1]:,} tokens",
            f"{slowest.first_s:.2f} s",
            f"{cold_s:.2f} s",
            f"{ratio:.2f}",
            "≤ 0.15",
            ratio <= 0.15,
        ),
    ]
    return rows + await _more_agents_than_places(options, cold_s)


async def _cold(engine: LlamaEngine, number: int) -> tuple[float, int]:
    """Seconds to the first token of a prompt that begins like no other, and its tokens."""
    text = await filler_of(engine, _COLD_TOKENS, f"{'Never' if number else 'Always'} seen before.")
    reply = await ask(engine, ({"role": "system", "content": text}, *user("Go on.")), 1)
    return reply.first_s, reply.finished.usage.prompt_tokens if reply.finished else 0


async def _more_agents_than_places(options: Options, cold_s: float) -> list[Row]:
    turns_each = 3
    async with engine_of(options, "crowd", context=4096, streams=2) as engine:
        results = [await filler_of(engine, _RESULT_TOKENS, f"Log {number}.") for number in range(turns_each)]
        agents = []
        for number in range(4):
            system = await filler_of(engine, _SYSTEM_TOKENS, f"{number + 2} ferries are yours.")
            agents.append(_Conversation(engine, f"agent-{number}", system, results))
        seen = [[await agent.turn() for agent in agents] for _ in range(turns_each)]
    later = [turn for turns in seen[1:] for turn in turns]
    missed = max(turn.missed_tokens for turn in later)
    slowest = max(turn.first_s for turn in later)
    first = statistics.median(turn.first_s for turn in seen[0])
    return [
        Row(
            "four agents in turn on two places: time to first token of the slowest later turn",
            f"their first turns, {seen[0][0].prompt_tokens:,} tokens read cold",
            f"{slowest:.2f} s, {missed} token{'' if missed == 1 else 's'} read again",
            f"{first:.2f} s",
            f"{slowest / first:.2f}",
            figures={"later": [[turn.prompt_tokens, round(turn.first_s, 3), turn.missed_tokens, turn.cache_miss] for turn in later]},
        )
    ]


async def published_lora(options: Options) -> list[Row]:
    """Eight streams on the current LoRA run on while another is loaded and answers its first request."""
    rounds = 3 if options.quick else 7
    header = read_header(embedded_model())
    folder = options.scratch / "loras"
    folder.mkdir()
    current = write_random_lora(folder / "current.gguf", header, seed=1, rank=8)
    fresh = [write_random_lora(folder / f"{seed}.gguf", header, seed=seed, rank=8) for seed in range(2, 2 + rounds)]
    async with engine_of(options, "lora", context=2048, streams=9) as engine:
        sampling = await endless(engine)
        await engine.load_lora(current)
        streams = [Reply(0.0) for _ in range(8)]
        tasks = [
            asyncio.create_task(
                ask(engine, user(f"{number}. Tell a long story of a river."), 700, sampling=sampling, lora=current, reply=reply)
            )
            for number, reply in enumerate(streams)
        ]
        same, new, loading = [], [], []
        try:
            await _flowing(streams, 20)
            began = streams[0].times[-1]
            await _first(engine, "warm", current)
            for number, lora in enumerate(fresh):
                same.append(await _first(engine, f"a{number}", current))
                loop = asyncio.get_running_loop()
                asked = loop.time()
                await engine.load_lora(lora)
                loading.append(loop.time() - asked)
                new.append(await _first(engine, f"b{number}", lora))
                await engine.unload_lora(lora.id)
            ended = streams[0].times[-1]
        finally:
            dropped = sum(task.done() for task in tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await settle()
    gaps = [gap for reply in streams for gap in reply.gaps(began, ended)]
    step, more = statistics.median(gaps), statistics.median(new) - statistics.median(same)
    return [
        Row(
            "first token on a just published LoRA, 8 streams running on the current one",
            "a first token on the current one",
            f"{statistics.median(new) * 1000:.0f} ms",
            f"{statistics.median(same) * 1000:.0f} ms",
            f"{more / step:+.1f} steps of {step * 1000:.0f} ms, {dropped} streams dropped",
            "≤ 1 step, none dropped",
            more <= step and dropped == 0,
            {
                "new_ms": [round(value * 1000) for value in new],
                "current_ms": [round(value * 1000) for value in same],
                "load_ms": [round(value * 1000) for value in loading],
                "longest_gap_ms": round(max(gaps) * 1000),
            },
        )
    ]


async def _first(engine: LlamaEngine, name: str, lora: LoRA) -> float:
    """Seconds to the first token of a prompt of some 40 tokens."""
    reply = await ask(engine, user(f"{name}: what does the keeper of the lighthouse write down in the evening?"), 1, lora=lora)
    return reply.first_s


async def _flowing(streams: list[Reply], tokens: int) -> None:
    for _ in range(1200):
        if all(len(reply.times) >= tokens for reply in streams):
            return
        await asyncio.sleep(0.05)
    raise RuntimeError("the streams did not get on within a minute")


async def memory(options: Options) -> list[Row]:
    """The worker's resident memory after 50 and after 1,000 requests of many kinds, four at a time."""
    last = 200 if options.quick else 1000
    async with engine_of(options, "memory", context=2048, streams=4) as engine:
        process = worker_process(engine)
        system = await filler_of(engine, 150, "You keep a log.")
        numbers = iter(range(last))
        sizes: dict[int, int] = {}
        done = 0

        async def client() -> None:
            nonlocal done
            for number in numbers:
                await _mixed(engine, system, number)
                done += 1
                if done == 50 or done == last or done % 100 == 0:
                    sizes[done] = process.memory_info().rss

        await asyncio.gather(*(client() for _ in range(4)))
        held = engine.stats.cache
    ratio = sizes[last] / sizes[50]
    return [
        Row(
            f"memory of the worker after {last:,} requests",
            "after 50",
            f"{sizes[last] >> 20} MiB",
            f"{sizes[50] >> 20} MiB",
            f"{ratio:.3f}",
            "≤ 1.05",
            ratio <= 1.05,
            {
                "mib": {str(count): size >> 20 for count, size in sizes.items()},
                "kept_mib": held.held_bytes >> 20,
                "limit_mib": held.limit_bytes >> 20,
            },
        )
    ]


async def _mixed(engine: LlamaEngine, system: str, number: int) -> None:
    """Mostly short replies behind one system prompt; some conversations of their own, hang-ups and prompts that do not fit."""
    messages: tuple[Message, ...] = ({"role": "system", "content": system}, *user(f"Entry {number}: wind from the west."))
    if number % 25 == 7:
        messages = user(f"{number}. {system} Go on.")
    elif number % 50 == 11:
        messages = user("too long " * 4000)
    request = GenerateRequest(
        messages, Sampling(temperature=0.7 if number % 3 else 0.0, seed=number), max_tokens=6, session=f"session-{number % 40}"
    )
    stream = engine.generate(request)
    try:
        async for _ in stream:
            if number % 20 == 13:
                break
    except ReefError:
        if number % 50 != 11:
            raise
    finally:
        await stream.aclose()
