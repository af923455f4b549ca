"""What Reef adds to a request, beside the least that keeps the same promise: ratios of one run, against a scripted upstream.

Run: python -m benchmarks.gateway [--only ROW] [--rounds 5] [--seconds 2] [--json]

Each client holds conversations of ten turns, and resends all of it each time, as agents do. Four processes: these clients, the upstream,
the bare durable proxy (benchmarks/gateway_servers.py says what it does), and a daemon with `engine.kind: upstream`. The servers take turns
within each round, and the median of the rounds' ratios counts. After each of its turns Reef fills its tables from its journal, which is
not measured; the row "on end" lasts so long that it has to do so all the time, and stands beside the others without a bound. The proxy
runs over aiohttp; the same over httpx, as many such proxies are built, stands beside it for comparison and counts for nothing.
Exit code 1 if a row misses what it is to reach.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import uvloop

from benchmarks.gateway_load import Load, Seen, Target

_START_S = 60.0
_BARE, _BARE_HTTPX = "the bare durable proxy", "the same over httpx"


@dataclass(frozen=True, slots=True)
class Kind:
    """One row's requests."""

    name: str
    title: str
    size_bytes: int
    at_once: int
    stream: bool
    bound: float
    reach: str  # empty: shown for comparison
    longer: int = 1  # one round instead of all, of so many times their length


ROWS = (
    Kind("throughput", "requests/s, 32 at once", 4000, 32, False, 0.80, "≥ 0.80"),
    Kind("sustained", "requests/s, 32 at once, on end: the tables keep up", 4000, 32, False, 0.0, "", 10),
    Kind("latency", "added latency, one at a time, p50", 4000, 1, False, 1.5, "≤ 1.5"),
    Kind("stream", "added time to first token of a stream, one at a time, p50", 4000, 1, True, 1.0, "≤ 1 ms more"),
    Kind("large", "requests/s, prompts of 200 KB, 16 at once", 200_000, 16, False, 0.60, "≥ 0.60"),
)


@dataclass(frozen=True, slots=True)
class Result:
    row: str
    title: str
    reef: str
    against: str
    there: str
    value: float
    to_reach: str  # empty: shown for comparison
    held: bool
    requests: int
    receipts: int


async def measure(load: Load, targets: dict[str, Target], kind: Kind, rounds: int, seconds: float) -> list[Result]:
    async def run(name: str, lasting: float) -> Seen:
        seen = await load.run(targets[name], kind.size_bytes, kind.at_once, lasting, stream=kind.stream)
        await load.settle(targets[name])
        return seen

    if kind.longer > 1:
        rounds, seconds = 1, seconds * kind.longer
    seen: dict[str, list[Seen]] = {name: [] for name in targets}
    for name in targets:
        await run(name, min(1.0, seconds))  # warm
    for number in range(rounds):
        order = list(targets)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            seen[name].append(await run(name, seconds))
    added = {
        name: statistics.median(each.p50_ms - direct.p50_ms for each, direct in zip(rounds_of, seen["direct"], strict=True))
        for name, rounds_of in seen.items()
    }
    rates = {name: statistics.median(each.requests_per_s for each in rounds_of) for name, rounds_of in seen.items()}
    shown = {name: f"{added[name]:.2f} ms" if kind.at_once == 1 else f"{rates[name]:.0f}/s" for name in targets}
    requests, receipts = sum(each.requests for each in seen["reef"]), sum(each.receipts for each in seen["reef"])
    results: list[Result] = []
    for against in (_BARE, _BARE_HTTPX):
        value = _compared(kind, list(zip(seen["reef"], seen[against], seen["direct"], strict=True)))
        held = value >= kind.bound if kind.at_once > 1 else value <= kind.bound
        aimed = against == _BARE
        results.append(
            Result(
                kind.name,
                kind.title,
                shown["reef"],
                against,
                shown[against],
                value,
                kind.reach * aimed,
                held or not aimed,
                requests,
                receipts,
            )
        )
    return results


def _compared(kind: Kind, rounds: list[tuple[Seen, Seen, Seen]]) -> float:
    """The median over the rounds, each of Reef, a proxy and the upstream asked directly: of the ratio of requests or of what is added, or
    of the milliseconds until a stream's first token that Reef adds more."""
    if kind.stream:
        return statistics.median(reef.p50_ms - bare.p50_ms for reef, bare, _ in rounds)
    if kind.at_once == 1:
        return statistics.median((reef.p50_ms - direct.p50_ms) / (bare.p50_ms - direct.p50_ms) for reef, bare, direct in rounds)
    return statistics.median(reef.requests_per_s / bare.requests_per_s for reef, bare, _ in rounds)


@contextlib.contextmanager
def servers(folder: Path, profile: str = "") -> Iterator[dict[str, Target]]:
    """The four targets: the upstream itself, two bare proxies, the daemon."""
    with contextlib.ExitStack() as stack:
        ports = {name: _free_port() for name in ("upstream", "bare", "bare-httpx", "reef")}
        upstream = f"http://127.0.0.1:{ports['upstream']}/v1"
        own = [sys.executable, "-P", "-m", "benchmarks.gateway_servers"]
        stack.enter_context(_process([*own, "upstream", str(ports["upstream"])], f"{upstream}/models"))
        for kind in ("bare", "bare-httpx"):
            command = [*own, kind, str(ports[kind]), upstream, str(folder / f"{kind}.db")]
            stack.enter_context(_process(command, f"http://127.0.0.1:{ports[kind]}/"))
        home = folder / "home"
        home.mkdir()
        engine = f"engine: {{kind: upstream, url: '{upstream}', model: scripted}}\n"
        (home / "config.yaml").write_text(f"{engine}server: {{port: {ports['reef']}}}\nlearn: {{mode: manual}}\n")
        how = ["-m", "cProfile", "-o", profile, "-m"] if profile else ["-m"]
        serve = [sys.executable, "-P", *how, "daemon", "serve", "--home", str(home)]
        stack.enter_context(_process(serve, f"http://127.0.0.1:{ports['reef']}/healthz"))
        token = (home / "tokens" / "client").read_text().strip()
        settle = f"http://127.0.0.1:{ports['reef']}/reef/scenarios/default/records?limit=1"
        yield {
            "direct": Target("direct", upstream),
            _BARE: Target("bare", f"http://127.0.0.1:{ports['bare']}/v1"),
            "reef": Target("reef", f"http://127.0.0.1:{ports['reef']}/v1", token, settle, (home / "tokens" / "owner").read_text().strip()),
            _BARE_HTTPX: Target("bare, httpx", f"http://127.0.0.1:{ports['bare-httpx']}/v1"),
        }


@contextlib.contextmanager
def _process(command: list[str], ready_url: str) -> Iterator[None]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REEF_")}
    root = Path(__file__).resolve().parent.parent
    process = subprocess.Popen(command, env={**environment, "PYTHONPATH": str(root)}, cwd=root, stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + _START_S
        while True:
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(ready_url, trust_env=False, timeout=2)
                break
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{command[3:]} did not start.")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[kind.name for kind in ROWS], action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each server in each round")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the databases lie; otherwise a temporary one")
    parser.add_argument("--profile", default="", help="write cProfile's figures of the daemon's main thread here")
    options = parser.parse_args()
    kinds = [kind for kind in ROWS if not options.only or kind.name in options.only]
    results: list[Result] = []

    async def run(targets: dict[str, Target]) -> None:
        async with Load(list(targets.values())) as load:
            for kind in kinds:
                results.extend(await measure(load, targets, kind, options.rounds, options.seconds))

    with tempfile.TemporaryDirectory(dir=options.folder) as temporary, servers(Path(temporary), options.profile) as targets:
        uvloop.run(run(targets))
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        print("| what | reef | against | there | result | to reach | held |")
        print("|---|---|---|---|---|---|---|")
        for each in results:
            judged = f"{each.to_reach} | {'yes' if each.held else 'no'}" if each.to_reach else "– | –"
            print(f"| {each.title} | {each.reef} | {each.against} | {each.there} | {each.value:.2f} | {judged} |")
        counted = {each.row: each for each in results}.values()
        print(f"\n{sum(each.requests for each in counted)} requests, {sum(each.receipts for each in counted)} receipts.")
    return 0 if all(each.held and each.requests == each.receipts for each in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
