"""Decode speed of one and of several streams against the bare loop, and the gaps of streams while a long prompt is read."""

from __future__ import annotations

import asyncio
import statistics

from benchmarks.engine_bare import LAYOUTS, BareLoop
from benchmarks.engine_tools import (
    Options,
    Reply,
    Row,
    ask,
    endless,
    engine_of,
    filler,
    filler_of,
    quantile,
    settle,
    thread_settings,
    together_tokens_per_s,
    user,
)
from daemon.engine.llama.engine import LlamaEngine
from daemon.engine.llama.machine import physical_cores
from daemon.models import embedded_model
from daemon.records import JSONObject

_NEAR = 0.85  # a layout that is slower than this share of the best is measured once only
_ASK = "\n\nDescribe a long walk along this river, from its spring to the sea, in ten chapters."


async def one_stream(options: Options) -> list[Row]:
    """Decode of one stream, and the same through HTTP and with llama.cpp's own attention kernel, as information."""
    steps, rounds = (60, 3) if options.quick else (128, 9)
    async with engine_of(options, "one", context=1024, streams=4) as engine:
        bare = BareLoop(embedded_model(), physical_cores(), thread_settings(engine))
        try:
            prompt = await filler_of(engine, 70)
            (warm,) = await _run(engine, [prompt], 4)
            depth = warm.finished.usage.prompt_tokens if warm.finished else 100
            ours, theirs, ratios, flash = [], [], [], []
            before = (await asyncio.to_thread(bare.measure, 1, depth, steps)).tokens_per_s
            for _ in range(rounds):
                speed = together_tokens_per_s(await _run(engine, [prompt], steps))
                after = (await asyncio.to_thread(bare.measure, 1, depth, steps)).tokens_per_s
                ours.append(speed)
                theirs.append((before + after) / 2)
                ratios.append(speed / theirs[-1])
                before = after
            for _ in range(2):
                flash.append((await asyncio.to_thread(bare.measure, 1, depth, steps, "separate, flash")).tokens_per_s)
        finally:
            bare.close()
    here, there, ratio = statistics.median(ours), statistics.median(theirs), statistics.median(ratios)
    return [
        Row(
            "one stream, decode",
            "a bare loop over the same low-level API",
            f"{here:.0f} tokens/s",
            f"{there:.0f} tokens/s",
            f"{ratio:.2f}",
            "≥ 0.95",
            ratio >= 0.95,
            {"ratios": [round(value, 3) for value in ratios]},
        ),
        Row(
            "one stream, decode",
            "a bare loop with llama.cpp's own choice of attention kernel, whose results depend on how many streams run",
            f"{here:.0f} tokens/s",
            f"{max(flash):.0f} tokens/s",
            f"{here / max(flash):.2f}",
        ),
    ]


async def several_streams(options: Options) -> list[Row]:
    """4 and 8 streams, at about 100 and 1,500 tokens of context each."""
    rows = []
    for streams in (4, 8):
        async with engine_of(options, f"streams-{streams}", context=2048, streams=streams) as engine:
            bare = BareLoop(embedded_model(), physical_cores(), thread_settings(engine))
            try:
                rows += [await _several(engine, bare, streams, depth, options) for depth in (100, 1500)]
            finally:
                bare.close()
    return rows


async def _several(engine: LlamaEngine, bare: BareLoop, streams: int, wanted: int, options: Options) -> Row:
    steps, rounds = (24, 1) if options.quick else (64 if wanted < 1000 else 40, 3)
    text = await filler_of(engine, wanted - 55)
    prompts = [f"{text}\n\nThis is chapter {number}." for number in range(streams)]
    for _ in range(2):  # until each prompt has a slot that holds it: what is measured begins together
        warm = await _run(engine, prompts, steps)
    depth = max(reply.finished.usage.prompt_tokens for reply in warm if reply.finished)
    ours: list[float] = []
    theirs: dict[str, list[float]] = {layout: [] for layout in LAYOUTS[:2]}
    ratios = []
    for _ in range(rounds):
        for layout, speeds in theirs.items():
            if not speeds or statistics.median(speeds) >= _NEAR * max(map(statistics.median, filter(None, theirs.values()))):
                speeds.append((await asyncio.to_thread(bare.measure, streams, depth, steps, layout)).tokens_per_s)
        ours.append(together_tokens_per_s(await _run(engine, prompts, steps)))
        ratios.append(ours[-1] / max(speeds[-1] for speeds in theirs.values()))
    best = max(theirs, key=lambda layout: statistics.median(theirs[layout]))
    ratio = statistics.median(ratios)
    return Row(
        f"{streams} streams at {wanted:,} tokens of context, decode in all",
        f"a bare batched loop, {best} key-value buffers",
        f"{statistics.median(ours):.0f} tokens/s",
        f"{statistics.median(theirs[best]):.0f} tokens/s",
        f"{ratio:.2f}",
        "≥ 0.90",
        ratio >= 0.90,
        {"depth": depth, "ratios": [round(value, 3) for value in ratios], **{name: [*speeds] for name, speeds in theirs.items()}},
    )


async def _run(engine: LlamaEngine, prompts: list[str], steps: int) -> list[Reply]:
    """Greedy, without anything that would cost more. To such a prompt the embedded model does not end its reply within these steps."""
    return await asyncio.gather(*(ask(engine, user(prompt + _ASK), steps) for prompt in prompts))


async def gaps_while_reading(options: Options) -> list[Row]:
    """The gaps of 4 streams before, during and after a prompt of 4,000 tokens is read beside them."""
    wanted = 1000 if options.quick else 4000
    async with engine_of(options, "gaps", context=6144, streams=5) as engine:
        sampling = await endless(engine)
        newcomer = await filler_of(engine, wanted - 40, "Read this.")
        streams = [Reply(0.0) for _ in range(4)]
        tasks = [
            # A text on one line: of a chat reply line breaks are held back until it is clear what follows them, and that is no gap.
            asyncio.create_task(ask(engine, (), 4000, sampling=sampling, text=filler(2 + number), reply=reply))
            for number, reply in enumerate(streams)
        ]
        try:
            await _until(streams, 80)
            began = max(reply.times[0] for reply in streams)
            asked = streams[0].times[-1]
            read = await ask(engine, user(newcomer), 1)
            done = read.times[0] if read.times else streams[0].times[-1]
            await _until(streams, len(streams[0].times) + 60)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await settle()
    before = [gap for reply in streams for gap in reply.gaps(began, asked)]
    after = [gap for reply in streams for gap in reply.gaps(done + 0.1)]
    during = [(moment, gap) for reply in streams for moment, gap in reply.gaps_at(asked, done)]
    first, last = statistics.median(before), statistics.median(after)
    # The streams grow longer meanwhile, and slower: each gap is compared with what is usual at its time.
    ratios = [gap / (first + (last - first) * (moment - asked) / (done - asked)) for moment, gap in during]
    worst = max(gap for _, gap in during)
    return [
        Row(
            f"4 streams while a prompt of {wanted:,} tokens is read: longest gap between tokens",
            "the same streams alone, before and after: usual gap",
            f"{worst * 1000:.0f} ms",
            f"{first * 1000:.0f} and {last * 1000:.0f} ms",
            f"{max(ratios):.1f}",
            "≤ 3",
            max(ratios) <= 3,
            {
                "ratio_p50": round(quantile(ratios, 0.5), 2),
                "ratio_p99": round(quantile(ratios, 0.99), 2),
                "during_ms": _spread([gap for _, gap in during]),
                "before_ms": _spread(before),
                "after_ms": _spread(after),
                "read_s": round(read.first_s, 2),
                "prompt_tokens": read.finished.usage.prompt_tokens if read.finished else 0,
            },
        )
    ]


def _spread(gaps: list[float]) -> JSONObject:
    return {
        "p50": round(quantile(gaps, 0.5) * 1000, 1),
        "p99": round(quantile(gaps, 0.99) * 1000, 1),
        "max": round(max(gaps) * 1000, 1),
        "count": len(gaps),
    }


async def _until(streams: list[Reply], tokens: int) -> None:
    """Wait until every stream has said so much."""
    for _ in range(2_400):
        if all(len(reply.times) >= tokens for reply in streams):
            return
        if any(reply.finished is not None for reply in streams):
            raise RuntimeError("a stream ended early: nothing to measure beside it")
        await asyncio.sleep(0.05)
    raise RuntimeError("the streams did not get on within two minutes")
