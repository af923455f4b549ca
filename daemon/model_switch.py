"""`reef models use`: another base model takes over while requests run.

Order, so that a crash at any point leaves the old state or the new one: the model is loaded in a worker of its own and answers → for
every scenario a release without the LoRA, which was made for the model before, is made durable and answers → **the settings name the
model**, which is what a start goes by → the releases become heads (a start does that too: see `daemon.recovery`) → in one step, new
requests go to the new engine and the new heads → the engine before ends with its last request.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from daemon.config import LlamaConfig
from daemon.config_edit import write_model
from daemon.engine.base import Engine
from daemon.engine.factory import make_engine
from daemon.engine.llama.engine import LlamaEngine
from daemon.engine.llama.room import check_room
from daemon.errors import Conflict, EngineError, ReefError
from daemon.evolution.publish import answer_once
from daemon.failpoints import failpoint
from daemon.harness.served import tell_agents
from daemon.model_files import canonical
from daemon.models import resolve_model
from daemon.recovery import for_base
from daemon.services import Services
from daemon.serving.releases import base_facts
from daemon.serving.snapshot import Snapshot
from daemon.versions.release import Prepared, Release

_log = logging.getLogger("reef.models")
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Switched:
    """What has come of it."""

    before: str  # the model's id
    model: str
    name: str  # as the settings have it
    context_tokens: int
    releases: tuple[Release, ...]  # the new heads; a scenario whose base model stays the same keeps its own
    left_out: tuple[str, ...] = ()  # sentences about scenarios that do not serve any more


@dataclass(slots=True)
class _Plan:
    """The heads to be. `prepared` are those that are new."""

    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    prepared: dict[str, Prepared] = field(default_factory=dict)


class ModelSwitch:
    """One switch at a time. Lives on the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.loading = ""  # what was asked for last, until it serves or has failed
        self._tasks: set[asyncio.Task[object]] = set()

    async def use(self, name: str, who: str) -> Switched:
        """Serve the model `name`. Goes on to its end, whoever stops waiting for it.

        Raises:
            Conflict: it serves already, another switch or a run is under way, or the settings name the model where Reef does not write.
            NotFound, DataError, EngineError, Unsupported: the model is not there, is none, or cannot be loaded beside the other.
            In each case nothing has changed.
        """
        if self.loading:
            raise Conflict(f"The model {self.loading} is being loaded.", "Wait until it serves: reef status")
        self.loading = name
        task = asyncio.create_task(self._use(name, who), name="model-switch")
        self._keep(task)
        return await asyncio.shield(task)

    async def _use(self, name: str, who: str) -> Switched:
        try:
            with self._services.runner.held_back(f"The model {name} is being loaded."):
                return await self._switch(name, who)
        finally:
            self.loading = ""

    async def _switch(self, name: str, who: str) -> Switched:
        services = self._services
        config = services.config.engine
        self._check_settings()
        path = await asyncio.to_thread(resolve_model, name, services.home)
        name = canonical(path, services.home)
        served = services.engine.model
        if served.path is not None and served.path.resolve() == path.resolve():
            raise Conflict(f"{served.id} serves already; nothing would change.", "See the others: reef models")
        chosen = config.model_copy(update={"model": name}) if isinstance(config, LlamaConfig) else LlamaConfig(model=name)
        engine = await asyncio.to_thread(make_engine, chosen, services.home)
        if isinstance(engine, LlamaEngine):
            check_room(name, engine.memory_bytes, served.id)
        _log.info("Loading %s beside %s", name, served.id)
        await self._load(engine)
        failpoint("model.loaded")
        async with services.scenarios.exclusive(), services.publisher.exclusive():
            try:
                plan = await self._prepare(engine, who)
                failpoint("model.prepared")
                await self._choose(chosen, plan)
            except BaseException:
                await engine.stop()
                raise
            failpoint("model.chosen")
            switched = await self._publish(engine, plan, name)
        _log.info("%s serves, %s before", switched.model, switched.before)
        return switched

    async def _load(self, engine: Engine) -> None:
        """Raises EngineError if the daemon stops meanwhile: it need not wait for a model that will not serve."""
        loading, stopping = asyncio.create_task(engine.start()), asyncio.create_task(self._services.stopping.wait())
        try:
            await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not loading.done():
                loading.cancel()
                await asyncio.wait({loading})
        if loading.cancelled():
            raise EngineError("The daemon is stopping; the model before stays.", "Start it again: reef up")
        loading.result()

    def _check_settings(self) -> None:
        """Raises Conflict if something that outranks the home's own file says which model serves: it would win at the next start."""
        loaded = self._services.loaded
        for key in ("model", "kind") if loaded.config.engine.kind != "llama" else ("model",):
            origin = loaded.where.get(("engine", key), "")
            if origin and not origin.startswith(f"{self._services.home.config}:"):
                raise Conflict(f"The model is set in {origin}, which goes before {self._services.home.config}.", "Change it there.")

    async def _prepare(self, engine: Engine, who: str) -> _Plan:
        """Every release that the new model needs, durable, and having answered on it.

        Raises:
            ReefError: one of them cannot be; what was prepared is given back.
        """
        services, plan, base = self._services, _Plan(), base_facts(engine.model)
        try:
            answered: list[object] = []
            for scenario, serving in sorted(services.serving.heads.items()):
                head = await asyncio.to_thread(services.repository.head, scenario)
                snapshot = serving
                if head is not None and not head.manifest.base.same_weights(base):
                    draft = for_base(head, engine.model, who)
                    plan.prepared[scenario] = await asyncio.to_thread(services.repository.prepare, draft)
                    snapshot = await services.releases.of(plan.prepared[scenario].release)
                if (snapshot.hints, snapshot.lora) not in answered:
                    await _answers(engine, snapshot)
                    answered.append((snapshot.hints, snapshot.lora))
                plan.snapshots[scenario] = snapshot
        except BaseException:
            await self._give_back(plan)
            raise
        return plan

    async def _choose(self, chosen: LlamaConfig, plan: _Plan) -> None:
        """From here on a start takes the new model."""
        services = self._services
        before = services.started_with
        services.started_with = before.model_copy(update={"engine": chosen})  # first: the file is watched
        try:
            await asyncio.to_thread(write_model, services.home.config, chosen.model)
        except BaseException:
            services.started_with = before
            await self._give_back(plan)
            raise

    async def _publish(self, engine: Engine, plan: _Plan, name: str) -> Switched:
        """Nothing here gives up: a scenario whose head cannot follow is left out, as at a start."""
        services, published, left_out = self._services, list[Release](), list[str]()
        heads = [snapshot for scenario, snapshot in plan.snapshots.items() if scenario not in plan.prepared]
        try:
            for scenario, prepared in plan.prepared.items():
                before = prepared.manifest.parent_release_id
                try:
                    release = await asyncio.to_thread(services.repository.advance, prepared, before)
                except ReefError as error:
                    _log.error("The scenario %s cannot serve: %s", scenario, error)
                    left_out.append(f"The scenario {scenario} does not serve: {error}")
                    continue
                heads.append(plan.snapshots[scenario])
                published.append(release)
                failpoint("model.published")
                await services.publisher.note_published(release, before)
        finally:
            services.warnings.extend(left_out)
            services.serving.move(engine, heads)
            old = services.engine.switch(engine)
            if isinstance(engine, LlamaEngine) and isinstance(old, LlamaEngine):
                engine.follow(old)
            self._keep(asyncio.create_task(self._retire(old), name="model-retire"))
        failpoint("model.switched")
        model = engine.model
        await asyncio.to_thread(tell_agents, services.home.agents, services.base_url, model.id, model.context_tokens)
        return Switched(old.model.id, engine.model.id, name, engine.model.context_tokens, tuple(published), tuple(left_out))

    async def _retire(self, engine: Engine) -> None:
        """End the engine before once its last request has ended."""
        services = self._services
        while services.serving.holds(engine) or services.engine.computes(engine):  # noqa: ASYNC110 -- nobody waits for its end
            await asyncio.sleep(_LOOK_S)
        await services.engine.retired(engine)
        _log.info("%s has ended its last request and was unloaded", engine.model.id)

    async def _give_back(self, plan: _Plan) -> None:
        for prepared in plan.prepared.values():
            await asyncio.to_thread(self._services.repository.discard, prepared)

    def _keep(self, task: asyncio.Task[object]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _answers(engine: Engine, snapshot: Snapshot) -> None:
    """Raises Conflict that names the scenario if the new model cannot answer in it."""
    try:
        await answer_once(engine, snapshot)
    except ReefError as error:
        raise Conflict(f"{engine.model.id} cannot answer in the scenario {snapshot.scenario}: {error.message}", error.hint) from error
