"""From a parsed call to a running exchange: scenario, session, release, serving hints, record.

The wires share this; each adds only its own parsing and its own frames.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from starlette.requests import Request

from daemon.engine.base import Capability, Counted, Embedded, GenerateRequest, ModelInfo, Priority
from daemon.errors import Busy, Conflict, Unsupported
from daemon.experience.sessions.grouping import SessionMatch, identify
from daemon.failpoints import failpoint
from daemon.gateway.admission import WALK_IN_THREAD_CHARACTERS, check_fits, check_length, check_model, check_supported, is_long, takes_long
from daemon.gateway.body import Body
from daemon.gateway.call import Call, Place, Sent
from daemon.gateway.choices import Starter, said_of
from daemon.gateway.exchange import Exchange, Recorder
from daemon.gateway.heads import headers_of
from daemon.gateway.landing import Landing
from daemon.gateway.passing import passed_on
from daemon.gateway.secrets import without_secrets
from daemon.gateway.steps import Steps
from daemon.gateway.wires.chat import engine_messages
from daemon.observing.request_facts import note_record
from daemon.records import DEFAULT_SCENARIO, Inference, JSONObject, TurnKind
from daemon.services import Services
from daemon.serving.releases import base_facts
from daemon.serving.serving import HEAD, Lease
from daemon.versions.pins import pinned
from daemon.versions.release import Release

MAX_IN_FLIGHT = 256
"""Live requests that are answered at once, those included that wait for the engine, whose own queue is shorter."""
_TAG = "x-reef-tag-"
_PARENT = "x-parent-session-id"
_MAX_TAG_CHARACTERS = 256
_PINNABLE = 20


class StoreRecorder(Recorder):
    """Records into the experience store; secrets are taken out there."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._landing = Landing()

    async def record(self, inference: Inference) -> None:
        store = self._services.store
        if inference.tokens is not None:
            inference = await without_secrets(inference, store.redaction, self._services.engine.current)
        awaited = self._landing.awaited()
        if not inference.lineage.keys and is_long(inference.messages, inference.request, WALK_IN_THREAD_CHARACTERS):
            await asyncio.to_thread(store.append_new, inference, awaited)
        else:
            store.append_new(inference, awaited)
        failpoint("admission.queued")
        await awaited.landed
        note_record(inference)


class Gateway(Starter):
    """Admits live requests. Lives on the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._recorder = StoreRecorder(services)
        self._running: set[Exchange] = set()

    @property
    def model(self) -> ModelInfo:
        return self._services.engine.model

    @property
    def engine_state(self) -> str:
        return self._services.engine.stats.state

    @property
    def capabilities(self) -> Capability:
        return self._services.engine.capabilities

    def sent(self, call: Call, body: Body, request: Request, *headers: str) -> Call:
        """`call` with what the client sent, for an engine that speaks the wire. `headers`: names of those that the wire needs."""
        if call.wire not in self._services.engine.wires:
            return call.came(len(body.data), None)
        known = headers_of(request.scope)
        kept = {name: known[name] for name in headers if name in known}
        return call.came(len(body.data), Sent(body.data, body.value, kept))

    async def place(self, call: Call, request: Request) -> Place:
        """Decide scenario and session of a conversation.

        Raises:
            NotFound: the model is not served here.
            ContextOverflow: it is so long that the engine need not be asked.
            Unsupported: the engine does not declare what it needs.
            Conflict: the scenario stands on another release than the one that the request binds it to.
        """
        failpoint("admission.request-read")
        long = takes_long(call)
        scenario = await self._admit(call, request, long=long)
        explicit = identify(headers_of(request.scope), call.request)
        resolve = self._services.store.resolve_session
        if long:
            match = await asyncio.to_thread(resolve, scenario, explicit, call.messages, call.request)
        else:
            match = resolve(scenario, explicit, call.messages, call.request)
        failpoint("admission.session-resolved")
        return Place(scenario, match, _tags(request))

    async def place_text(self, calls: Sequence[Call], request: Request) -> Place:
        """Decide scenario and session of plain completions, which are no turns of a conversation. Raises as `place` does.

        Editors complete at every pause in typing and name no session: those of an hour are kept together.
        """
        scenario = ""
        for call in calls:
            scenario = await self._admit(call, request, long=False)
        session = identify(headers_of(request.scope), calls[0].request) or time.strftime("completions-%Y%m%d-%H", time.gmtime())
        return Place(scenario, SessionMatch(session, False, kind=TurnKind.ASIDE), _tags(request))

    async def start(self, call: Call, place: Place, steps: Steps, index: int) -> Exchange:
        """One generation, ready to start, on the release that the session is on; a plain completion is on the head."""
        self._check_room()
        pinned = call.release or (HEAD if call.text is not None else None)
        lease = await self._services.serving.admit(place.scenario, place.session, pinned)
        try:
            check_model(call.model, lease.engine.model)  # another model may have taken over meanwhile
        except BaseException:
            lease.release()
            raise
        return begin(self._recorder, lease, call, place, Priority.LIVE, steps, index, self._running)

    async def embed(self, model: str, texts: tuple[str, ...], request: Request) -> Embedded:
        """Vectors of `texts`. Nothing is recorded; it counts as a live request.

        Raises:
            NotFound: the model is not served here.
            Unsupported: the engine cannot.
        """
        check_model(model, self.model)
        self._check_room()
        scenario, activity = scenario_of(request), self._services.serving.activity
        if Capability.EMBEDDINGS not in self.capabilities:
            raise Unsupported("This model cannot make embeddings.", "Serve a model that pools, or name another server as the engine.")
        for text in texts:
            check_length(len(text), self.model, "input")
        await self._services.scenarios.ensure(scenario)
        activity.begin(scenario)
        try:
            return await self._services.engine.embed(texts)
        finally:
            activity.end(scenario)

    async def count(self, call: Call, request: Request) -> Counted:
        """How many tokens the prompt of `call` would have on the scenario's head. Nothing is recorded, no scenario made.

        Raises:
            NotFound: the model is not served here.
            ContextOverflow: it is so long that the engine need not be asked.
        """
        check_model(call.model, self.model)
        check_fits(call, self.model)
        self._check_room()
        engine, head = self._services.engine, self._services.serving.head(scenario_of(request))
        messages = head.hints.apply(call.messages) if head is not None else call.messages
        forward = passed_on(call, engine, head) if head is not None else None
        return await engine.count(GenerateRequest(engine_messages(messages), tools=call.tools, forward=forward))

    def added(self, records: Sequence[Inference]) -> JSONObject:
        """The receipts, every record being on disk by now, and what the engine has to say of the reply."""
        found: JSONObject = {"agent_record_id": records[0].id, "release_id": records[0].release_id}
        if len(records) > 1:
            found["agent_record_ids"] = [record.id for record in records]
        return found | said_of(records)

    def headers(self, records: Sequence[Inference]) -> dict[str, str]:
        return {"x-reef-agent-record-id": records[0].id}

    async def stop(self) -> None:
        """End what is running; it is recorded as aborted."""
        running = list(self._running)
        for exchange in running:
            exchange.abort()
        await asyncio.gather(*(exchange.task for exchange in running if exchange.task is not None), return_exceptions=True)

    async def model_names(self, request: Request) -> list[str]:
        """The model, and the releases of the request's scenario under which it can be asked for: those that were made for it."""
        scenario, model = scenario_of(request), self.model
        found, base = await asyncio.to_thread(self._askable, scenario), base_facts(model)
        return [model.id, *(f"{model.id}@{release.id}" for release in found if release.manifest.base.same_weights(base))]

    def _askable(self, scenario: str) -> list[Release]:
        """The newest releases of the chain, then older ones that are pinned."""
        repository = self._services.repository
        newest = repository.chain(scenario, _PINNABLE)
        listed = {release.id for release in newest}
        kept = sorted(pinned(repository, scenario), key=lambda release_id: -int(release_id[1:]))
        return [*newest, *(repository.release(scenario, release_id) for release_id in kept if release_id not in listed)]

    async def _admit(self, call: Call, request: Request, *, long: bool) -> str:
        """The request's scenario, once all that can be checked without the engine is."""
        check_model(call.model, self.model)
        if long:
            await asyncio.to_thread(self._check, call)
        else:
            self._check(call)
        scenario = scenario_of(request)
        self._check_binding(scenario, request)
        await self._services.scenarios.ensure(scenario)
        return scenario

    def _check(self, call: Call) -> None:
        check_supported(call, self.capabilities)
        check_fits(call, self.model)

    def _check_room(self) -> None:
        if self._services.serving.activity.in_flight >= MAX_IN_FLIGHT:
            raise Busy(f"{MAX_IN_FLIGHT} requests are being answered already.", "Try again in a moment.", retry_after_s=2)

    def _check_binding(self, scenario: str, request: Request) -> None:
        wanted = headers_of(request.scope).get("x-reef-release-id")
        head = self._services.serving.head(scenario)
        if not wanted or (head is not None and wanted == head.release_id):
            return
        if head is None:
            raise Conflict(f"The scenario {scenario[:80]} is not there yet, so it stands on no release.", "Leave out x-reef-release-id.")
        message = f"The scenario {scenario} stands on {head.release_id}, not on {wanted}."
        raise Conflict(message, f"Leave out x-reef-release-id, or ask for the model {self.model.id}@{wanted}.")


def begin(
    recorder: Recorder,
    lease: Lease,
    call: Call,
    place: Place,
    priority: Priority,
    steps: Steps,
    index: int,
    running: set[Exchange] | None = None,
) -> Exchange:
    """An exchange under `lease`, on its engine, ready to start; it gives the lease back at its end. `running` lists it until then."""
    try:
        engine, snapshot = lease.engine, lease.snapshot
        # Prefix and demonstrations are for conversations; a plain text is completed as it is.
        effective = snapshot.hints.apply(call.messages) if call.text is None else call.messages
        sampling = call.sampling.resolve(snapshot.hints.sampling)
        forward = passed_on(call, engine, snapshot) if priority is Priority.LIVE else None
        request = GenerateRequest(
            messages=engine_messages(effective) if call.text is None and forward is None else (),
            sampling=sampling,
            max_tokens=call.max_tokens,
            text=call.text,
            suffix=call.suffix if Capability.FILL_IN_MIDDLE in engine.capabilities else None,
            tools=call.tools,
            tool_choice=call.tool_choice,
            parallel_tool_calls=call.parallel_tool_calls,
            response_format=call.response_format,
            top_logprobs=call.top_logprobs,
            template_values=call.template_values,
            lora=snapshot.lora,
            priority=priority,
            scenario=place.scenario,
            session=place.session if place.match.kind is TurnKind.TURN else "",
            extra=call.extra,
            forward=forward,
        )
        receipts = [place.receipt_of(index)]
        draft = partial(  # the record, as far as it is known before the reply
            Inference,
            id=receipts[0],
            scenario=place.scenario,
            session=place.session,
            created_at=time.time(),
            release_id=snapshot.release_id,
            lora_id=snapshot.lora.id if snapshot.lora is not None else None,
            model=engine.model.id,
            wire=call.wire,
            messages=call.messages,
            effective_messages=None if effective == call.messages else effective,
            kind=place.match.kind,
            lineage=place.lineage(index),
            sampling=sampling,
            request=call.request,
            tags=place.tags,
        )
        drafts = [draft]
        if request.forward is not None:
            receipts += [place.receipt_of(at) for at in range(1, call.choices)]
            drafts += [partial(draft, id=receipts[at], lineage=place.lineage(at)) for at in range(1, call.choices)]
    except BaseException:
        lease.release()
        raise
    return Exchange(engine, recorder, lease, request, receipts, drafts, steps, index, set() if running is None else running)


def scenario_of(request: Request) -> str:
    """The scenario that a request names in its path or its header; else the default one."""
    named = request.path_params.get("scenario")
    return str(named) if named else headers_of(request.scope).get("x-reef-scenario", "").strip() or DEFAULT_SCENARIO


def _tags(request: Request) -> dict[str, str]:
    """What the client says beside the request; a subagent's session names the one that it works for."""
    headers = headers_of(request.scope)
    tags = {
        name.removeprefix(_TAG): value[:_MAX_TAG_CHARACTERS]
        for name, value in headers.items()
        if name.startswith(_TAG) and name != f"{_TAG}session"
    }
    if parent := headers.get(_PARENT):
        tags.setdefault("parent-session", parent[:_MAX_TAG_CHARACTERS])
    return tags
