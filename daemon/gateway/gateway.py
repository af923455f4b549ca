"""From a parsed call to a running exchange: scenario, session, release, serving hints, record.

The wires share this; each adds only its own parsing and its own frames.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request

from daemon.engine.base import Engine, GenerateRequest, ModelInfo, Priority
from daemon.errors import Conflict, NotFound, Unsupported
from daemon.experience.grouping import SessionMatch, identify
from daemon.gateway.call import Call
from daemon.gateway.exchange import Exchange, Recorder
from daemon.gateway.wire_chat import engine_messages
from daemon.records import DEFAULT_SCENARIO, Inference, JSONObject, Message, TurnKind, new_id
from daemon.services import Services
from daemon.serving.serving import Lease
from daemon.serving.snapshot import Snapshot

_TAG = "x-reef-tag-"
_MAX_TAG_CHARACTERS = 256
_IN_THREAD_CHARACTERS = 64 << 10
_PINNABLE = 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request belongs."""

    scenario: str
    match: SessionMatch
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def session(self) -> str:
        return self.match.session


class Starter(ABC):
    """Begins generations for a wire, and says what Reef adds to its replies."""

    @abstractmethod
    async def start(self, call: Call, place: Place) -> Exchange: ...

    @abstractmethod
    def added(self, records: Sequence[Inference]) -> JSONObject:
        """The `reef` object of a reply; `records` has one entry a choice."""

    @abstractmethod
    def headers(self, records: Sequence[Inference]) -> dict[str, str]:
        """Headers of a reply that is not streamed, beside those that name the release."""


class StoreRecorder(Recorder):
    """Records into the experience store; secrets are taken out there."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def record(self, inference: Inference) -> None:
        store = self._services.store
        if _is_long(inference.messages):
            future = await asyncio.to_thread(store.append, inference)
        else:
            future = store.append(inference)
        await asyncio.wrap_future(future)


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

    async def place(self, call: Call, request: Request) -> Place:
        """Decide scenario and session.

        Raises:
            NotFound: the model is not served here.
            Conflict: the scenario stands on another release than the one that the request binds it to.
        """
        self._check_model(call)
        check_supported(call, self.model)
        scenario = scenario_of(request)
        self._check_binding(scenario, request)
        await self._services.scenarios.ensure(scenario)
        headers = dict(request.headers)
        explicit = identify(headers, call.request)
        resolve = self._services.store.resolve_session
        if _is_long(call.messages):
            match = await asyncio.to_thread(resolve, scenario, explicit, call.messages, call.request)
        else:
            match = resolve(scenario, explicit, call.messages, call.request)
        tags = {
            name.removeprefix(_TAG): value[:_MAX_TAG_CHARACTERS]
            for name, value in headers.items()
            if name.startswith(_TAG) and name != f"{_TAG}session"
        }
        return Place(scenario, match, tags)

    async def start(self, call: Call, place: Place) -> Exchange:
        """Begin one generation on the release that the session is on."""
        lease = await self._services.serving.admit(place.scenario, place.session, call.release)
        exchange = begin(self._services.engine, self._recorder, lease, call, place, Priority.LIVE)
        self._running.add(exchange)
        exchange.task.add_done_callback(lambda _: self._running.discard(exchange))
        return exchange

    def added(self, records: Sequence[Inference]) -> JSONObject:
        """The receipts: every record is on disk by now."""
        found: JSONObject = {"agent_record_id": records[0].id, "release_id": records[0].release_id}
        if len(records) > 1:
            found["agent_record_ids"] = [record.id for record in records]
        return found

    def headers(self, records: Sequence[Inference]) -> dict[str, str]:
        return {"x-reef-agent-record-id": records[0].id}

    async def stop(self) -> None:
        """End what is running; it is recorded as aborted."""
        running = list(self._running)
        for exchange in running:
            exchange.abort()
        await asyncio.gather(*(exchange.task for exchange in running), return_exceptions=True)

    async def model_names(self, request: Request) -> list[str]:
        """The model, and the releases of the request's scenario under which it can be asked for."""
        scenario = scenario_of(request)
        chain = await asyncio.to_thread(self._services.repository.chain, scenario, _PINNABLE)
        return [self.model.id, *(f"{self.model.id}@{release.id}" for release in chain)]

    def _check_model(self, call: Call) -> None:
        if call.model == self.model.id or call.base_model == self.model.id:
            return
        hint = f"Served here: {self.model.id}. Set that as the model, or start Reef with another: reef init."
        raise NotFound(f"The model {call.model!r} is not served here.", hint, param="model")

    def _check_binding(self, scenario: str, request: Request) -> None:
        wanted = request.headers.get("x-reef-release-id")
        head = self._services.serving.head(scenario)
        if not wanted or (head is not None and wanted == head.release_id):
            return
        if head is None:
            raise Conflict(f"The scenario {scenario[:80]} is not there yet, so it stands on no release.", "Leave out x-reef-release-id.")
        message = f"The scenario {scenario} stands on {head.release_id}, not on {wanted}."
        raise Conflict(message, f"Leave out x-reef-release-id, or ask for the model {self.model.id}@{wanted}.")


def begin(engine: Engine, recorder: Recorder, lease: Lease, call: Call, place: Place, priority: Priority) -> Exchange:
    """Start generating under `lease`, which the exchange gives back at its end."""
    try:
        snapshot = lease.snapshot
        effective, sampling = snapshot.hints.apply(call.messages), call.sampling.resolve(snapshot.hints.sampling)
        request = GenerateRequest(
            messages=engine_messages(effective),
            sampling=sampling,
            max_tokens=call.max_tokens,
            tools=call.tools,
            lora=snapshot.lora,
            priority=priority,
            scenario=place.scenario,
            session=place.session if place.match.kind is TurnKind.TURN else "",
            extra=call.extra,
        )
        draft = Inference(  # the record, as far as it is known before the reply
            id=new_id("rec"),
            scenario=place.scenario,
            session=place.session,
            created_at=time.time(),
            release_id=snapshot.release_id,
            lora_id=snapshot.lora.id if snapshot.lora is not None else None,
            model=engine.model.id,
            wire=call.wire,
            messages=call.messages,
            effective_messages=None if effective == call.messages else effective,
            reply={},
            finish_reason="",
            kind=place.match.kind,
            sampling=sampling,
            request=call.request,
            tags=place.tags,
        )
    except BaseException:
        lease.release()
        raise
    return Exchange(engine, recorder, lease, request, draft)


def check_supported(call: Call, model: ModelInfo) -> None:
    """Refuse what would otherwise be ignored in silence.

    Raises:
        Unsupported: names the field.
    """
    if call.extra.get("logprobs") is True:
        hint = "Leave it out; log-probabilities are stored with the record."
        raise Unsupported("'logprobs' cannot be returned.", hint, param="logprobs")
    if model.path is None:
        return  # an upstream is asked for it and answers for itself
    form = call.extra.get("response_format")
    if isinstance(form, dict) and form.get("type") != "text":
        hint = "Ask for JSON in the prompt, or use an upstream engine that can."
        raise Unsupported("This engine cannot hold a reply to a JSON form.", hint, param="response_format")
    choice = call.extra.get("tool_choice")
    if isinstance(choice, dict) or choice == "required":
        raise Unsupported("This engine cannot be made to call a tool.", "Set tool_choice to auto.", param="tool_choice")


def scenario_of(request: Request) -> str:
    """The scenario that a request names in its path or its header; else the default one."""
    named = request.path_params.get("scenario")
    return str(named) if named else request.headers.get("x-reef-scenario", "").strip() or DEFAULT_SCENARIO


def release_headers(snapshot: Snapshot) -> dict[str, str]:
    """Which release answered."""
    return {"x-reef-release-id": snapshot.release_id, "x-reef-artifact-version": snapshot.content_id or snapshot.release_id}


def _is_long(messages: tuple[Message, ...]) -> bool:
    """Whether hashing and redacting the messages would hold up the event loop."""
    parts = (message.get(name) for message in messages for name in ("content", "tool_calls"))
    return sum(len(part if isinstance(part, str) else str(part)) for part in parts if part) > _IN_THREAD_CHARACTERS
