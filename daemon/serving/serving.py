"""What serves now: the head of each scenario, and which release each session and each request in flight is on.

A session keeps its release until it has been idle for a while; requests in flight keep theirs to the end. New sessions take the head.
A LoRA is unloaded once no head, session or request uses it. When another base model takes over, every session takes the head, which was
made for it; what is in flight ends on the engine that took it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from daemon.engine.base import Engine, LoRA, ModelInfo
from daemon.errors import Conflict, NotFound, ReefError
from daemon.serving.activity import Activity
from daemon.serving.releases import base_facts
from daemon.serving.snapshot import ReleaseSource, Snapshot, base_snapshot

_log = logging.getLogger("reef.serving")
HEAD, BASE = "head", "base"


class Lease:
    """One request's hold on a snapshot, and on the engine that computes it. Release it exactly when the request has ended."""

    def __init__(self, snapshot: Snapshot, engine: Engine, serving: Serving, *, live: bool) -> None:
        self.snapshot = snapshot
        self.engine = engine
        self._serving = serving
        self.live = live
        self._open = True

    def release(self) -> None:
        if self._open:
            self._open = False
            self._serving.close_lease(self, live=self.live)


@dataclass(frozen=True, slots=True)
class InFlight:
    """Live requests that are being answered."""

    scenario: str
    session: str  # empty: they belong to none
    release_id: str
    requests: int


@dataclass(slots=True)
class _Pin:
    snapshot: Snapshot
    used_at: float
    in_flight: int = 0


class Serving:
    """See the module. Lives on the event loop; nothing in it blocks."""

    def __init__(self, engine: Engine, releases: ReleaseSource, *, idle_s: float) -> None:
        """`idle_s`: after so many seconds without a request a session takes the head again."""
        self.idle_s = idle_s
        self.activity = Activity()
        self._engine = engine
        self._releases = releases
        self._heads: dict[str, Snapshot] = {}
        self._pins: dict[tuple[str, str], _Pin] = {}
        self._leases: dict[Lease, _Pin | None] = {}  # → what its session is on; None: it belongs to no session
        self._candidates: dict[tuple[str, str], Snapshot] = {}  # (run, name) → what a run wants evaluated
        self._loaded: dict[str, LoRA] = {}
        self._loading = asyncio.Lock()
        self._checked: tuple[Snapshot | None, ModelInfo | None] = (None, None)

    @property
    def heads(self) -> dict[str, Snapshot]:
        """Scenario → what new sessions get."""
        return dict(self._heads)

    def head(self, scenario: str) -> Snapshot | None:
        return self._heads.get(scenario)

    def loras_in_use(self) -> set[str]:
        """Ids of the LoRAs that a head, a session, a candidate or a request is on, or that are loaded."""
        return {snapshot.lora.id for snapshot in self._in_use() if snapshot.lora is not None} | set(self._loaded)

    async def install(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the head of its scenario. Its LoRA is loaded first; sessions under way stay where they are.

        Raises:
            DataError: the LoRA does not fit; the old head goes on. Conflict: it was made for another base model.
        """
        check_base(snapshot, self._engine)
        await self._ensure_loaded(snapshot, self._engine)
        self._heads[snapshot.scenario] = snapshot
        await self.sweep()

    def move(self, engine: Engine, heads: Iterable[Snapshot]) -> None:
        """From now on `engine`, which has another base model, computes, and every session is on one of `heads`.

        Requests in flight keep their release and their engine: see `holds`.
        """
        self._engine = engine
        self._heads = {snapshot.scenario: snapshot for snapshot in heads}
        self._loaded = {}
        self._pins.clear()
        self._candidates.clear()

    def holds(self, engine: Engine) -> bool:
        """Whether a request is under way on `engine`."""
        return any(lease.engine is engine for lease in self._leases)

    def remove(self, scenario: str) -> None:
        """Serve this scenario no more."""
        self._heads.pop(scenario, None)
        for key in [key for key in self._pins if key[0] == scenario]:
            del self._pins[key]

    def offer(self, run_id: str, name: str, snapshot: Snapshot) -> None:
        """Let a run's evaluation ask for its candidate by `name`, until `withdraw`."""
        self._candidates[run_id, name] = snapshot

    def withdraw(self, run_id: str) -> None:
        for key in [key for key in self._candidates if key[0] == run_id]:
            del self._candidates[key]

    async def admit(self, scenario: str, session: str, pinned: str | None = None) -> Lease:
        """Choose the snapshot for one live request.

        Args:
            session: its session keeps the release that it began with.
            pinned: a release that the request names itself (`MODEL@r14`); it changes nothing for the session.

        Raises:
            NotFound: the scenario has no head, or there is no such release. Conflict: that one was made for another base model.
        """
        if pinned is not None:
            pin, snapshot = None, await self.resolve(scenario, pinned)
        else:
            pin = self._pin(scenario, session)
            snapshot = pin.snapshot
        self.activity.begin(scenario)
        return await self._open_lease(snapshot, pin, live=True)

    async def borrow(self, scenario: str, name: str, run_id: str = "") -> Lease:
        """A snapshot for evaluation: a release id, `head`, `base`, or a candidate of that run. Counts as no live request."""
        return await self._open_lease(await self.resolve(scenario, name, run_id), None, live=False)

    async def resolve(self, scenario: str, name: str, run_id: str = "") -> Snapshot:
        """The snapshot that `name` means. Raises `NotFound`."""
        candidate = self._candidates.get((run_id, name))
        if candidate is not None:
            return candidate
        if name == BASE:
            return base_snapshot(scenario)
        head = self._heads.get(scenario)
        if head is None:
            raise NotFound(f"There is no scenario {scenario!r}.", "See the scenarios there are: reef status.")
        if name in (HEAD, head.release_id):
            return head
        return await self._releases.snapshot(scenario, name)

    def sessions_under_way(self, scenario: str) -> int:
        """How many sessions keep their release until they are idle."""
        limit = time.monotonic() - self.idle_s
        return sum(1 for (name, _), pin in list(self._pins.items()) if name == scenario and (pin.in_flight or pin.used_at >= limit))

    def sessions_in_flight(self) -> list[InFlight]:
        """What is being answered now, by session; requests that belong to none, by scenario and release."""
        found = [
            InFlight(name, session, pin.snapshot.release_id, pin.in_flight) for (name, session), pin in self._pins.items() if pin.in_flight
        ]
        alone = Counter(
            (lease.snapshot.scenario, lease.snapshot.release_id) for lease, pin in self._leases.items() if pin is None and lease.live
        )
        return found + [InFlight(name, "", release, count) for (name, release), count in alone.items()]

    def update_session(self, scenario: str, session: str) -> None:
        """Let a session under way take the head with its next request."""
        self._pins.pop((scenario, session), None)

    def under_way(self, scenario: str, session: str) -> tuple[str, bool] | None:
        """The release that a session keeps, and whether a request of it is in flight; None once it is idle: it takes the head then."""
        pin = self._pins.get((scenario, session))
        if pin is None or (not pin.in_flight and time.monotonic() - pin.used_at > self.idle_s):
            return None
        return pin.snapshot.release_id, pin.in_flight > 0

    async def sweep(self) -> None:
        """Forget sessions that have gone idle and unload LoRAs that nobody uses. Call it now and then."""
        limit = time.monotonic() - self.idle_s
        for key in [key for key, pin in self._pins.items() if not pin.in_flight and pin.used_at < limit]:
            del self._pins[key]
        async with self._loading:
            used = {snapshot.lora.id for snapshot in self._in_use() if snapshot.lora is not None}
            for lora_id in [lora_id for lora_id in self._loaded if lora_id not in used]:
                del self._loaded[lora_id]  # first, so that a request that comes now loads it again
                try:
                    await self._engine.unload_lora(lora_id)
                except ReefError as error:
                    _log.warning("Cannot unload LoRA %s: %s", lora_id[:12], error)

    def close_lease(self, lease: Lease, *, live: bool) -> None:
        """Called by `Lease.release`."""
        pin = self._leases.pop(lease)
        if live:
            self.activity.end(lease.snapshot.scenario)
        if pin is not None:
            pin.used_at = time.monotonic()
            pin.in_flight -= 1

    async def _open_lease(self, snapshot: Snapshot, pin: _Pin | None, *, live: bool) -> Lease:
        lease = Lease(snapshot, self._engine, self, live=live)
        self._leases[lease] = pin
        try:
            self._check_base(snapshot, lease.engine)
            if snapshot.lora is not None:
                await self._ensure_loaded(snapshot, lease.engine)
        except BaseException:
            lease.release()
            raise
        return lease

    def _pin(self, scenario: str, session: str) -> _Pin:
        """What the session is on, with one more request in flight."""
        head = self._heads.get(scenario)
        if head is None:
            raise NotFound(f"There is no scenario {scenario!r}.", "See the scenarios there are: reef status.")
        now = time.monotonic()
        pin = self._pins.get((scenario, session))
        if pin is None or (not pin.in_flight and now - pin.used_at > self.idle_s):
            pin = self._pins[scenario, session] = _Pin(head, now)
        pin.used_at = now
        pin.in_flight += 1
        return pin

    def _check_base(self, snapshot: Snapshot, engine: Engine) -> None:
        """As `check_base`; what was checked last, as most requests' is, is not looked at again."""
        model = engine.model
        if self._checked[0] is not snapshot or self._checked[1] is not model:
            check_base(snapshot, engine)
            self._checked = (snapshot, model)

    async def _ensure_loaded(self, snapshot: Snapshot, engine: Engine) -> None:
        lora, loaded = snapshot.lora, self._loaded  # another base model brings another dictionary
        if lora is None or lora.id in loaded:
            return
        async with self._loading:
            if lora.id not in loaded:
                await engine.load_lora(lora)
                loaded[lora.id] = lora

    def _in_use(self) -> Iterator[Snapshot]:
        yield from self._heads.values()
        yield from self._candidates.values()
        yield from (pin.snapshot for pin in self._pins.values())
        yield from (lease.snapshot for lease in self._leases)


def check_base(snapshot: Snapshot, engine: Engine) -> None:
    """Raises Conflict for a release of another base model than the engine's: its LoRA would be computed on the wrong weights."""
    wanted = snapshot.base
    if wanted is not None and not wanted.same_weights(served := base_facts(engine.model)):
        message = f"{snapshot.release_id} was made for another base model than {served.model}, which serves now."
        raise Conflict(message, wanted.put_back)


async def sweep_forever(serving: Serving, every_s: float = 30.0) -> None:
    """Run `sweep` until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        with contextlib.suppress(ReefError):
            await serving.sweep()
