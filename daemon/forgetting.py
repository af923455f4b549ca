"""Forgetting: a session or a record goes out of the experience, the releases and the runs, and what serves is put right.

Releases come first and the database last, so that after a crash the same command finds what is left to do.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from daemon.errors import StorageError
from daemon.evolution.publish import engine_settings
from daemon.experience.removal import forget
from daemon.experience.removal.forget import Doomed
from daemon.failpoints import failpoint
from daemon.harness_tree import HarnessTree
from daemon.services import Services
from daemon.serving.releases import base_facts
from daemon.versions.kept import WeightState, weight_state
from daemon.versions.manifest import Operation, StoredFile
from daemon.versions.release import Draft, LoRAFiles, Release, ReleaseState
from daemon.versions.tombstones import Words

_log = logging.getLogger("reef.forget")


@dataclass(frozen=True, slots=True)
class Touched:
    """A release that has to do with what is forgotten."""

    scenario: str
    release_id: str
    state: ReleaseState
    trained: bool  # its LoRA was trained on it, or is such a LoRA carried over
    files: int  # that hold its texts
    serving: bool


@dataclass(frozen=True, slots=True)
class Plan:
    doomed: Doomed
    touched: tuple[Touched, ...]
    copies: tuple[str, ...]  # in the home: backups beside the database, what a restore moved aside; they keep it
    loras: frozenset[str] = frozenset()  # ids of LoRAs that were trained on it

    @property
    def words(self) -> Words:
        return Words(frozenset(self.doomed.receipts), self.doomed.texts)


@dataclass(frozen=True, slots=True)
class Forgotten:
    head: str | None  # the release that was published for it; None: what serves held nothing of it
    files: int  # of releases, replaced
    dropped: tuple[str, ...]  # held candidates that were given up
    scrubbed: bool  # False: the write-ahead log was busy and is emptied later


class Forgetting:
    """One at a time; lives on the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = asyncio.Lock()

    async def plan(self, scenario: str, *, session: str | None = None, record: str | None = None) -> Plan:
        """What would go, and which releases it concerns; nothing changes. Raises `NotFound`."""
        services = self._services
        doomed = await asyncio.to_thread(forget.find, services.reader, scenario, session=session, record=record)
        return await asyncio.to_thread(self._plan, doomed)

    async def carry_out(self, plan: Plan, who: str, *, retire: bool) -> Forgotten:
        """Erase it.

        Args:
            retire: serve without the LoRAs that were trained on it, and erase their weights too.

        Raises:
            Conflict: a run is under way, and may be reading it. StorageError: the disk.
        """
        services, scenario = self._services, plan.doomed.scenario
        async with self._lock:
            with services.runner.held_back("something is being forgotten"):
                before = services.serving.head(scenario)
                head = await self._clean_head(plan, who, retire=retire)
                dropped = await self._drop_held(plan)
                failpoint("forget.head-clean")
                files = await asyncio.to_thread(services.repository.bury, plan.words)
                services.releases.forget()
                failpoint("forget.buried")
                if retire:
                    await asyncio.to_thread(self._erase_loras, plan.loras)
                await asyncio.to_thread(self._erase_runs, plan.doomed.runs)
                scrubbed = await asyncio.to_thread(forget.erase, services.store, plan.doomed)
                detail = {"records": len(plan.doomed.receipts), "reports": len(plan.doomed.reports), "files": files, "retired": retire}
                before_id = before.release_id if before is not None else None
                after = services.log.append(scenario, "forget", before_id, head or before_id, who, dict(detail))
                await asyncio.wrap_future(after)
        _log.info("%s: %d records were forgotten", scenario, len(plan.doomed.receipts))
        return Forgotten(head, files, dropped, scrubbed)

    def _plan(self, doomed: Doomed) -> Plan:
        receipts = frozenset(doomed.receipts)
        loras = frozenset(self._trained_on(doomed.scenario, receipts))
        holding = self._services.repository.holding(Words(receipts, doomed.texts))
        heads = {name: head.release_id for name, head in self._services.serving.heads.items()}
        touched = []
        for release in self._releases():
            scenario = release.manifest.scenario
            files = holding.get((scenario, release.id), 0)
            trained = release.manifest.lora_id in loras
            if files or trained or (scenario == doomed.scenario and receipts & set(release.manifest.records)):
                touched.append(Touched(scenario, release.id, release.state, trained, files, heads.get(scenario) == release.id))
        database = self._services.home.database
        kept = [*database.parent.glob(f"{database.name}.schema*.backup"), *database.parent.glob("before-restore-*")]
        copies = tuple(str(path) for path in sorted(kept))
        return Plan(doomed, tuple(touched), copies, loras)

    def _releases(self) -> Iterable[Release]:
        repository = self._services.repository
        for scenario in repository.refs.all_scenarios():
            yield from (*repository.chain(scenario), *repository.held(scenario), *repository.rejected(scenario))

    def _trained_on(self, scenario: str, receipts: frozenset[str]) -> Iterable[str]:
        """LoRAs of releases that took one of the records, unless the LoRA was there before."""
        for release in self._releases():
            manifest = release.manifest
            if manifest.scenario != scenario or manifest.lora_id is None or not receipts & set(manifest.records):
                continue
            parent = self._services.repository.release(scenario, manifest.parent_release_id) if manifest.parent_release_id else None
            if parent is None or parent.manifest.lora_id != manifest.lora_id:
                yield manifest.lora_id

    async def _clean_head(self, plan: Plan, who: str, *, retire: bool) -> str | None:
        """Let every scenario's head go on without it; the id of the release that this took in the scenario itself."""
        made: str | None = None
        for name in list(self._services.serving.heads):
            found = await asyncio.to_thread(self._clean_draft, plan, name, who, retire)
            if found is None:
                continue
            draft, expected = found
            release = await self._services.publisher.publish(draft, expected)
            made = release.id if name == plan.doomed.scenario else made
        return made

    def _clean_draft(self, plan: Plan, scenario: str, who: str, retire: bool) -> tuple[Draft, str] | None:
        head = self._services.repository.head(scenario)
        if head is None:
            return None
        files = {path: plan.words.without(text) for path, text in head.tree.files.items()}
        edited = sum(files[path] != text for path, text in head.tree.files.items())
        lora = head.lora
        if retire and lora is not None and lora.id in plan.loras:
            lora = self._earlier_lora(head, plan.loras)
        if not edited and lora is head.lora:
            return None
        parts = [f"{edited} file{'s' if edited > 1 else ''} cleaned"] if edited else []
        parts += [f"LoRA {'taken off' if lora is None else 'of an earlier release'}"] if lora is not head.lora else []
        model = self._services.engine.model
        draft = Draft(
            scenario=scenario,
            operation=Operation.FORGET,
            base=base_facts(model),
            harness=HarnessTree(files),
            lora=lora,
            change=f"forgotten on request: {', '.join(parts)}",
            engine=engine_settings(model),
            who=who,
        )
        return draft, head.id

    def _earlier_lora(self, head: Release, tainted: frozenset[str]) -> LoRAFiles | None:
        """The newest one that was not trained on it and fits what serves."""
        repository = self._services.repository
        for release in repository.chain(head.manifest.scenario):
            fits = release.manifest.base.same_weights(head.manifest.base)
            there = weight_state(release, repository.weights, repository.tombstones) in (WeightState.NONE, WeightState.KEPT)
            if fits and there and (release.lora is None or release.lora.id not in tainted):
                return release.lora
        return None

    async def _drop_held(self, plan: Plan) -> tuple[str, ...]:
        """Held candidates that were made from it: promoting one would bring it back."""
        dropped = []
        for touched in plan.touched:
            if touched.state is ReleaseState.HELD:
                await asyncio.to_thread(self._services.repository.drop_held, touched.scenario, touched.release_id)
                dropped.append(touched.release_id)
        return tuple(dropped)

    def _erase_loras(self, loras: frozenset[str]) -> None:
        files: dict[str, StoredFile] = {}
        needed: set[str] = set()
        for release in self._releases():
            if release.lora is None:
                continue
            if release.lora.id in loras:
                files.update({stored.sha256: stored for stored in release.lora.files})
            else:
                needed.update(stored.sha256 for stored in release.lora.files)
        self._services.repository.erase_weights([stored for sha256, stored in files.items() if sha256 not in needed])
        for lora in loras:
            (self._services.home.loras / f"{lora}.gguf").unlink(missing_ok=True)

    def _erase_runs(self, runs: Iterable[str]) -> None:
        """The folders of runs that read it: samples, candidates, replies."""
        for run in runs:
            folder = self._services.home.runs / run
            try:
                if folder.is_dir() and not folder.is_symlink():
                    shutil.rmtree(folder)
            except OSError as error:
                raise StorageError(f"Cannot remove {folder}: {error.strerror}.", "Remove it by hand, then forget again.") from error
