"""Starting, following, pausing, ending runs, and publishing what they decided. Lives in the daemon, on its event loop.

One run at a time in a daemon: they share the processor with what serves. The run itself is a child process (`run_process`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from daemon.config import Config
from daemon.engine.base import Engine, LoRA
from daemon.errors import Conflict, NotFound, ReefError
from daemon.evolution import run_folder
from daemon.evolution.consent import require_yes
from daemon.evolution.discovery import known_recipes
from daemon.evolution.job import OUTCOME_FILE, Outcome, RunJob, read_outcome
from daemon.evolution.job_building import run_job
from daemon.evolution.outcome import checked, draft_of
from daemon.evolution.publish import Publisher
from daemon.evolution.replaying import PROMOTE, check_fits, replayed
from daemon.evolution.supervision import Supervision
from daemon.experience.runs import Run, RunStatus, RunStore
from daemon.paths import Home
from daemon.records import JSON, JSONObject, new_id
from daemon.serving.serving import Serving
from daemon.tokens import Tokens
from daemon.versions.personal import personal_lines
from daemon.versions.release import Release
from daemon.versions.replay import Replay
from daemon.versions.repository import Repository

_log = logging.getLogger("reef.runs")
SCHEDULED = "schedule"
"""The trigger of a run that nobody asked for; only new experience counts for it."""
_JUST_TOLD_S = 0.4
_UNKEPT = frozenset({"heartbeat"})


@dataclass(slots=True)
class _Active:
    """The run under way."""

    run: Run
    task: asyncio.Task[None]
    ending: asyncio.Event  # somebody wants it to end; its task is never cancelled, so that it always cleans up and is stored
    cancelled: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    told_at: float = 0.0  # when it last told something, on the monotonic clock


class Runner:
    """Runs recipes. `configure` before the first run and whenever the configuration changes."""

    def __init__(
        self,
        home: Home,
        engine: Engine,
        serving: Serving,
        repository: Repository,
        runs: RunStore,
        publisher: Publisher,
        tokens: Tokens,
    ) -> None:
        self._home = home
        self._engine = engine
        self._serving = serving
        self._repository = repository
        self._runs = runs
        self._publisher = publisher
        self._tokens = tokens
        self._config = Config()
        self._base_url = ""
        self._search_paths: tuple[Path, ...] = ()
        self._active: _Active | None = None
        self._starting = False
        self._held_back = ""

    def configure(self, config: Config, base_url: str, search_paths: Sequence[Path] = ()) -> None:
        """Settings for runs that start from now on.

        Args:
            base_url: where this daemon listens, such as `http://127.0.0.1:8900`.
            search_paths: folders that recipes by dotted path may come from; only run processes import from them.
        """
        self._config, self._base_url, self._search_paths = config, base_url, tuple(search_paths)

    @contextmanager
    def held_back(self, why: str) -> Iterator[None]:
        """No run starts meanwhile.

        Raises:
            Conflict: one is under way.
        """
        if self._active is not None or self._starting:
            name = f"The run {self._active.run.id}" if self._active is not None else "A run"
            hint = f"Wait for it, or cancel it: reef runs {self._active.run.id} --cancel" if self._active is not None else "Wait for it."
            raise Conflict(f"{name} is under way on what serves now.", hint)
        self._held_back = why
        try:
            yield
        finally:
            self._held_back = ""

    @property
    def active(self) -> Run | None:
        """The run under way, as it was created."""
        return self._active.run if self._active is not None else None

    async def start(
        self,
        scenario: str,
        *,
        recipe: str | None = None,
        settings: Mapping[str, JSON] | None = None,
        trigger: str = "owner",
        dry_run: bool = False,
        seed: int | None = None,
    ) -> Run:
        """Start a run and return at once.

        Args:
            recipe: None: the scenario's configured one, with its settings.
            settings: laid over the configured ones, or the only ones where another recipe is named.

        Raises:
            Conflict: a run is under way, or learning is off. NotFound: no such scenario.
        """
        return await self._start(lambda: self._prepare(scenario, recipe, settings, trigger, dry_run, seed))

    async def evaluate_again(self, replay: Replay, who: str, confirmed: Collection[str] = frozenset()) -> Run:
        """Start a run that evaluates an aged candidate on what serves now and, by the gate's decision, publishes, holds or rejects it.

        Args:
            confirmed: ids of what the guard finds in the two together and a person said yes to.

        Raises:
            Conflict: a run is under way, something else serves by now, or the harness of the two together is none.
            Unconfirmed: there is more that the guard finds.
        """
        return await self._start(lambda: self._prepare_again(replay, who, confirmed))

    async def _start(self, prepare: Callable[[], Awaitable[tuple[Run, RunJob, Config]]]) -> Run:
        if self._active is not None or self._starting:
            name = f"The run {self._active.run.id}" if self._active is not None else "Another run"
            raise Conflict(f"{name} is under way.", "Wait for it, or cancel it.")
        if self._held_back:
            raise Conflict(self._held_back, "Try again when that is done.")
        self._starting = True  # before the first await, so that two starts cannot both pass
        try:
            run, job, config = await prepare()
            ending = asyncio.Event()
            self._active = _Active(run, asyncio.create_task(self._follow(run, job, config, ending), name=run.id), ending)
        finally:
            self._starting = False
        return run

    async def _prepare(
        self, scenario: str, recipe: str | None, settings: Mapping[str, JSON] | None, trigger: str, dry_run: bool, seed: int | None
    ) -> tuple[Run, RunJob, Config]:
        config = self._config.for_scenario(scenario)
        if config.learn.mode == "off":
            raise Conflict("Learning is off.", "Set learn.mode to manual or auto.")
        head = self._serving.head(scenario)
        if head is None:
            raise NotFound(f"There is no scenario {scenario!r}.", "See the scenarios there are: reef status.")
        chosen, configured = recipe or config.reef.recipe, config.reef.recipe
        known = await asyncio.to_thread(known_recipes)  # `sft` and its dotted path are one recipe
        own = dict(config.reef.settings) if known.get(chosen, chosen) == known.get(configured, configured) else {}
        run_id = new_id("run")
        release = await asyncio.to_thread(self._repository.release, scenario, head.release_id)
        lora_folder = await asyncio.to_thread(run_folder.make, self._home.runs / run_id, release, self._repository)
        job = run_job(
            run_id=run_id,
            scenario=scenario,
            home=self._home,
            base_url=self._base_url,
            recipe=chosen,
            search_paths=self._search_paths,
            settings={**own, **(settings or {})},
            release=release,
            lora_folder=lora_folder,
            engine=self._engine,
            config=config,
            personal=await asyncio.to_thread(personal_lines, self._repository, scenario),
            dry_run=dry_run,
            seed=seed,
            reread=trigger != SCHEDULED,
        )
        facts: JSONObject = {"settings": dict(job.settings), "dry_run": dry_run, "seed": job.seed, "release": release.id}
        run = await asyncio.wrap_future(self._runs.create(scenario, chosen, trigger=trigger, config=facts, run_id=run_id))
        return run, job, config

    async def _prepare_again(self, replay: Replay, who: str, confirmed: Collection[str]) -> tuple[Run, RunJob, Config]:
        head, candidate = replay.head, replay.candidate
        scenario, recipe = head.manifest.scenario, candidate.manifest.recipe
        serving = self._serving.head(scenario)
        if serving is None or serving.release_id != head.id:
            raise Conflict(f"{head.id} does not serve any more.", f"Ask again: reef promote {candidate.id}")
        await asyncio.to_thread(check_fits, replay)
        yes = await asyncio.to_thread(require_yes, self._repository, head, candidate.id, replay.tree, confirmed)
        config, run_id = self._config.for_scenario(scenario), new_id("run")
        folder = self._home.runs / run_id
        lora_folder = await asyncio.to_thread(run_folder.make, folder, head, self._repository)
        job = run_job(
            run_id=run_id,
            scenario=scenario,
            home=self._home,
            base_url=self._base_url,
            recipe=(recipe.path or recipe.name) if recipe is not None else "",
            search_paths=self._search_paths,
            settings=recipe.settings if recipe is not None else {},
            release=head,
            lora_folder=lora_folder,
            engine=self._engine,
            config=config,
            personal=await asyncio.to_thread(personal_lines, self._repository, scenario),
            dry_run=False,
            seed=candidate.manifest.seed,
            reread=True,
            replays=await asyncio.to_thread(replayed, replay, self._repository, folder, who, yes),
        )
        facts: JSONObject = {
            "kind": PROMOTE,
            "promotes": candidate.id,
            "release": head.id,
            "settings": dict(job.settings),
            "seed": job.seed,
        }
        created = self._runs.create(scenario, job.recipe or PROMOTE, trigger=who, config=facts, run_id=run_id)
        return await asyncio.wrap_future(created), job, config

    async def cancel(self, run_id: str) -> Run:
        """End a run; returns when it has ended.

        Raises:
            NotFound: there is no such run. Conflict: it has ended before.
        """
        active = self._active
        if active is None or active.run.id != run_id:
            run = await asyncio.to_thread(self._runs.get, run_id)
            raise Conflict(f"The run {run_id} has already ended: {run.status}.", f"See `reef runs {run_id}`.")
        active.cancelled = True
        active.ending.set()
        await asyncio.wait([active.task])
        return await asyncio.to_thread(self._runs.get, run_id)

    async def wait(self, run_id: str) -> Run:
        """Return once the run has ended."""
        while self._active is not None and self._active.run.id == run_id:
            await asyncio.wait([self._active.task])
        return await asyncio.to_thread(self._runs.get, run_id)

    async def wait_event(self, run_id: str, timeout_s: float) -> None:
        """Return when the run has told something new or has ended, or after `timeout_s`."""
        active = self._active
        if active is None or active.run.id != run_id:
            return
        if time.monotonic() - active.told_at < _JUST_TOLD_S:  # the caller may have looked just before that
            await asyncio.sleep(_JUST_TOLD_S / 4)
            return
        try:
            await asyncio.wait_for(active.changed.wait(), timeout_s)
        except TimeoutError:
            return

    async def stop(self) -> None:
        """At the daemon's end: the run under way is cancelled, with that reason."""
        active = self._active
        if active is not None:
            active.ending.set()
            await asyncio.wait([active.task])

    async def _follow(self, run: Run, job: RunJob, config: Config, ending: asyncio.Event) -> None:
        """The whole life of one run. Whatever happens, it ends in the database and its token dies.

        Once the recipe is done, the publication that follows is finished, whoever asks for an end: half of it would serve otherwise.
        """
        status, verdict, sentence, release_id, error = RunStatus.FAILED, "", "", None, ""
        supervision = Supervision(job, self._serving, config, lambda event: self._note(run.id, event))
        try:
            token = self._tokens.issue(run.id, run.scenario)
            await asyncio.to_thread(run_folder.lay_down, job, token)
            if await _unless(ending, supervision.run()):
                said = await asyncio.to_thread(read_outcome, job.folder / OUTCOME_FILE)
                outcome = await asyncio.to_thread(checked, job, said)
                release = await self._settle(run, job, outcome, supervision.lora)
                status, verdict, sentence = RunStatus.DONE, outcome.verdict, outcome.sentence
                release_id = release.id if release is not None else None
                if release is None and outcome.verdict == "promoted":
                    sentence += " (dry run: nothing was published)"
                elif release is not None and release.manifest.run_id != run.id:
                    sentence += f" ({release.id}, which is held already, is the same)"
            else:  # no fault of the recipe: it counts as no attempt at its records
                status = RunStatus.CANCELLED
                sentence = "cancelled" if self._active is not None and self._active.cancelled else "the daemon stopped while it ran"
        except ReefError as failure:
            sentence, error = failure.message, str(failure)
        except Exception as failure:  # noqa: BLE001 - the top of a run
            _log.exception("the run %s ended by a bug", run.id)
            sentence = error = f"The run ended by a bug of ours: {type(failure).__name__}: {failure}"
        await self._clean_up(run, job, supervision.lora)
        await self._finish(run, status, verdict, sentence, release_id, error)

    async def _clean_up(self, run: Run, job: RunJob, lora: LoRA | None) -> None:
        """Its token dies, its candidate is unloaded, and the candidate's LoRA file goes unless a release holds it now."""
        self._tokens.revoke(run.id)
        self._serving.withdraw(run.id)
        try:
            await asyncio.to_thread(run_folder.tidy, job.folder)
            if lora is not None and lora.id not in await asyncio.to_thread(self._repository.weights_in_use):
                await self._serving.sweep()
                await asyncio.to_thread(lora.path.unlink, missing_ok=True)
        except (ReefError, OSError) as error:
            _log.warning("Run %s left files behind: %s", run.id, error)

    async def _finish(self, run: Run, status: RunStatus, verdict: str, sentence: str, release_id: str | None, error: str) -> None:
        event: JSONObject = {"type": "ended", "status": status.value, "verdict": verdict, "sentence": sentence, "release_id": release_id}
        try:
            await self._note(run.id, {**event, "error": error} if error else event)
            finished = self._runs.finish(run.id, status, verdict=verdict, sentence=sentence, release_id=release_id, error=error)
            await asyncio.wrap_future(finished)
        except ReefError as failure:
            _log.error("The end of run %s could not be stored: %s", run.id, failure)
        finally:
            if self._active is not None:
                self._active.changed.set()
            self._active = None
        _log.info("%s: run %s %s: %s", run.scenario, run.id, verdict or status.value, sentence)

    async def _settle(self, run: Run, job: RunJob, outcome: Outcome, evaluated: LoRA | None) -> Release | None:
        """Publish, hold or reject; the release, which is an earlier run's where that holds the same candidate already."""
        if outcome.verdict == "nothing" or job.dry_run:
            return None
        await self._note(run.id, {"type": "phase", "phase": "publish", "detail": outcome.verdict})
        draft = await asyncio.to_thread(draft_of, job, outcome, evaluated)
        if outcome.verdict == "promoted":
            return await self._publisher.publish(draft, job.release.id)
        if outcome.verdict == "held":
            return await self._publisher.hold(draft)
        return await self._publisher.reject(draft)

    async def _note(self, run_id: str, event: JSONObject) -> None:
        """Keep an event; records that the run took are noted for the retry limit."""
        kind = event.get("type")
        if kind in _UNKEPT:
            return
        records = event.get("records")
        dry = self._active is not None and self._active.run.config.get("dry_run") is True
        if kind == "selected" and isinstance(records, list) and not dry:  # a rehearsal is no attempt
            await asyncio.wrap_future(self._runs.add_records(run_id, [record for record in records if isinstance(record, str)]))
        await asyncio.wrap_future(self._runs.event(run_id, event))
        active = self._active
        if active is not None:
            active.told_at = time.monotonic()
            active.changed.set()
            active.changed = asyncio.Event()


async def _unless(ending: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Do `work`; False if `ending` was set before it was done, and it was cancelled and has cleaned up."""
    working, asked = asyncio.create_task(work), asyncio.create_task(ending.wait())
    await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if working.done():
        working.result()
        return True
    working.cancel()
    await asyncio.wait([working])
    if not working.cancelled() and (failure := working.exception()) is not None:
        _log.warning("while it was ended: %s", failure)
    return False
