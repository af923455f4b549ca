"""Kills at every named instant of publishing, holding, rejecting, rolling back, undoing, promoting, pinning and collecting.

`python -m tests.evolution.release_kills FOLDER COUNT SEED` prints one JSON line a kill. This process never starts a thread, so that it can
fork: one child does the operation and dies in it, the next opens the home as a start of the daemon does, and looks at everything.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path

from daemon import failpoints
from daemon.collecting import Collected, note
from daemon.errors import Conflict
from daemon.evolution.publish import answer_once, facts_of
from daemon.experience.check import logged_releases
from daemon.experience.operations import OperationLog
from daemon.recovery import agree
from daemon.versions import collect
from daemon.versions.draft import content_id_of
from daemon.versions.fsck import LogFacts, Severity, fsck
from daemon.versions.kept import WeightState, weight_state
from daemon.versions.pins import pinned
from daemon.versions.release import ReleaseState
from tests.evolution.parts import Parts, parts
from tests.versions.parts import lora_folder

_PREPARING = {"publish.object-written": 3, "publish.commit-written": 1}
_MOVING = {"publish.smoke-loaded": 1, "publish.head-moved": 1, "publish.followed": 1, "publish.noted": 1, "publish.logged": 1}
_WEIGHTS = {"publish.weights-stored": 3, "publish.lfs-written": 1}
INSTANTS: Mapping[str, Mapping[str, int]] = {
    "publish": _WEIGHTS | _PREPARING | _MOVING,
    "rollback": {"publish.lfs-written": 1} | _PREPARING | _MOVING,
    "undo": {"publish.lfs-written": 1} | _PREPARING | _MOVING,
    "promote": {"publish.lfs-written": 1} | _PREPARING | _MOVING,
    "hold": _WEIGHTS | _PREPARING | {"hold.held": 1},
    "reject": _WEIGHTS | _PREPARING | {"reject.traced": 1, "reject.cleared": 1},
    "dismiss": {"dismiss.traced": 1, "dismiss.dropped": 1},
    "pin": {"pin.set": 1},
    "unpin": {"pin.removed": 1},
    "gc": {"gc.named": 1, "gc.removed-one": 1, "gc.removed": 1},
}
"""Operation → failpoint → how many passages of it are tried."""
_WHOLE = (WeightState.NONE, WeightState.KEPT)
_HOME_FOR = 40  # kills; the check of one home takes longer with each release


def cases(count: int, seed: int) -> list[tuple[str, str, int]]:
    """Every operation at every instant first, shuffled; then again with later passages."""
    chance = random.Random(seed)
    found: list[tuple[str, str, int]] = []
    passage = 1
    while len(found) < count:
        round_ = [(operation, point, min(passage, most)) for operation, points in INSTANTS.items() for point, most in points.items()]
        chance.shuffle(round_)
        found += round_
        passage += 1
    return found[:count]


async def operate(bench: Parts, operation: str, folder: Path, arm: Callable[[str | None], None]) -> None:
    """Prepare what the operation needs, tell through `arm` which content would serve after it (None: the same), then do it."""
    publisher, repository = bench.publisher, bench.repository
    head = repository.head("default")
    if head is None:
        raise RuntimeError("there is no head")
    drafted = dataclasses.replace(
        bench.draft(f"{operation} {folder.name}", lora_folder(folder, folder.name)), records=(f"rec_{folder.name}",)
    )
    if operation == "publish":
        arm(content_id_of(drafted))
        await publisher.publish(drafted, head.id)
    elif operation == "rollback":
        whole = (one for one in repository.chain("default") if weight_state(one, repository.weights, repository.tombstones) in _WHOLE)
        target = next(one for one in whole if one.content_id != head.content_id)
        arm(target.content_id)
        await publisher.rollback("default", target.id, head.id, "owner")
    elif operation == "undo":
        arm(repository.chain("default", 2)[1].content_id)
        await publisher.undo("default", head.id, "owner")
    elif operation == "promote":
        held = await publisher.hold(drafted)
        arm(held.content_id)
        await publisher.promote("default", held.id, head.id, "owner")
    elif operation in ("hold", "reject"):
        arm(None)
        await (publisher.hold(drafted) if operation == "hold" else publisher.reject(drafted))
    elif operation == "dismiss":
        held = await publisher.hold(drafted)
        arm(None)
        await publisher.dismiss("default", held.id, "owner")
    elif operation == "gc":
        await asyncio.to_thread(repository.prepare, drafted)  # as a killed publication leaves it: there is always something to collect
        await asyncio.to_thread(_collect, bench, head.id, arm)
    else:
        if operation == "unpin":
            await publisher.pin("default", head.id, "owner")
        arm(None)
        await (publisher.pin if operation == "pin" else publisher.unpin)("default", head.id, "owner")


def _collect(bench: Parts, head: str, arm: Callable[[str | None], None]) -> None:
    with bench.repository.writing():
        items = collect.find(bench.repository, lambda _: 1, grace_s=0)
        arm(None)
        collect.remove(bench.repository, items)
    failpoints.failpoint("gc.removed")
    note(bench.log, {"default": head}, Collected(tuple(items), False), "owner")


async def look(bench: Parts) -> dict[str, object]:
    """What a start finds, after it has repaired the log and serves the head."""
    repository = bench.repository
    chain = repository.chain("default")
    await agree(repository, bench.log, chain[0])
    known = sorted(bench.runs.consumed("default")), bench.log.lora_history("default"), _rows(bench.log)
    await asyncio.wrap_future(bench.log.rebuild("default", [facts_of(one) for one in reversed(chain)]))
    if known != (sorted(bench.runs.consumed("default")), bench.log.lora_history("default"), _rows(bench.log)):
        raise RuntimeError("the start took the log for one that knows the chain")
    served = bench.serving.head("default")
    if served is None or served.release_id != chain[0].id:
        raise RuntimeError(f"{served} serves, not {chain[0].id}")
    await answer_once(bench.engine, served)
    facts = LogFacts(logged_releases(bench.reader), bench.home.database)
    problems = [f"{one.where}: {one.message}" for one in fsck(repository, facts) if one.severity is Severity.ERROR]
    held = repository.held("default")
    return {
        "chain": [f"{one.id} {one.commit_id}" for one in chain],
        "content": chain[0].content_id,
        "consumed": sorted(bench.runs.consumed("default")),
        "held": [one.id for one in held],
        "rejected": [one.id for one in repository.rejected("default")],
        "numbers": [one.manifest.number for one in (*chain, *held, *repository.rejected("default"))],
        "promoted": [one.id for release in chain for one in repository.promoted_by(release) if one.state is ReleaseState.PROMOTED],
        "pins": sorted(pinned(repository, "default")),
        "noted": [f"{operation} {named}" for operation, _, named in _rows(bench.log)],
        "problems": problems,
    }


def _rows(log: OperationLog) -> list[tuple[str, str | None, str]]:
    return [(one.operation, one.after, str(one.detail.get("release_id"))) for one in log.list("default", 1000)]


def _forked(work: Callable[[Callable[[dict[str, object]], None]], Coroutine[None, None, None]]) -> tuple[int, list[dict[str, object]]]:
    """Run `work` in a child; its exit code (negative: the signal), and what it told through its argument."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 3
        try:
            with os.fdopen(writing, "w") as stream:
                asyncio.run(work(lambda told: print(json.dumps(told), file=stream, flush=True)))
            code = 0
        except Conflict as error:
            print(f"refused: {error}", file=sys.stderr, flush=True)
            code = 4
        except BaseException:  # noqa: BLE001 -- it must never go on as its parent
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        told = [json.loads(line) for line in stream if line.endswith(b"\n")]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told


def kill(home: Path, folder: Path, operation: str, point: str, passage: int) -> tuple[int, str | None]:
    """Do the operation in a child that dies at `point`; how it ended, and the content that it would have served."""

    async def work(tell: Callable[[dict[str, object]], None]) -> None:
        def arm(content: str | None) -> None:
            tell({"content": content})
            failpoints._armed, failpoints._left = point, passage

        async with parts(home) as bench:
            await operate(bench, operation, folder, arm)

    code, told = _forked(work)
    return code, str(told[0]["content"]) if told and told[0]["content"] is not None else None


def looked(home: Path) -> dict[str, object]:
    async def work(tell: Callable[[dict[str, object]], None]) -> None:
        async with parts(home) as bench:
            tell(await look(bench))

    code, told = _forked(work)
    if code != 0 or not told:
        raise RuntimeError(f"the home cannot be opened any more: exit code {code}")
    return told[0]


def begin(home: Path, folder: Path) -> None:
    """Two releases with a LoRA each, and a candidate, so that every operation has something to work on."""

    async def work(_: Callable[[dict[str, object]], None]) -> None:
        async with parts(home) as bench:
            for number in range(2):
                name = f"first-{number}"
                await bench.publisher.publish(bench.draft(name, lora_folder(folder / name, name)), bench.head)

    code, _ = _forked(work)
    if code != 0:
        raise RuntimeError("no home could be made")


def judged(operation: str, before: dict[str, object], after: dict[str, object], content: str | None, died: int) -> list[str]:
    """What is wrong: nothing, if the old or the new release serves, whole."""
    old, new = _texts(before["chain"]), _texts(after["chain"])
    wrong = _texts(after["problems"])
    if new[-len(old) :] != old or len(new) > len(old) + 1:
        wrong.append("the chain did more than grow by one")
    if len(new) > len(old) and (content is None or after["content"] != content):
        wrong.append("the new release has another content than it should")
    if len(new) == len(old) and after["content"] != before["content"]:
        wrong.append("the old release has another content than it had")
    numbers = after["numbers"]
    if not isinstance(numbers, list) or len(numbers) != len(set(numbers)):
        wrong.append("two releases have one number")
    both = set(_texts(after["held"])) & set(_texts(after["promoted"]))
    if both:
        wrong.append(f"{both} are held and promoted")
    noted = _texts(after["noted"])
    if operation in ("pin", "unpin", "dismiss") and not noted[0].startswith(f"{operation} "):
        wrong.append("the log does not know of it")
    if operation == "dismiss" and len(_texts(after["rejected"])) == len(_texts(before["rejected"])):
        wrong.append("the candidate that was given up left no trace")
    if died != -signal.SIGKILL and died != 0:
        wrong.append(f"the operation ended with {died}")
    return [f"{operation}: {one}" for one in wrong]


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def main(folder: Path, count: int, seed: int) -> int:
    wrong: list[str] = []
    home = folder
    before: dict[str, object] = {}
    for number, (operation, point, passage) in enumerate(cases(count, seed)):
        if number % _HOME_FOR == 0:
            home = Path(tempfile.mkdtemp(dir=folder, prefix="home-"))
            begin(home, folder / f"first-{number}")
            before = looked(home)
        died, content = kill(home, folder / f"job-{number}", operation, point, passage)
        after = looked(home)
        found = judged(operation, before, after, content, died)
        grown = len(_texts(after["chain"])) > len(_texts(before["chain"]))
        print(
            json.dumps({"operation": operation, "point": f"{point}:{passage}", "killed": died == -9, "new": grown, "wrong": found}),
            flush=True,
        )
        wrong += found
        before = after
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
