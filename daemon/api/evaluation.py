"""Inference for a named candidate or release, for a run's token: after all live requests, and never in the stream."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.api.views import tokens_view
from daemon.engine.base import Priority
from daemon.errors import BadRequest, Forbidden
from daemon.experience.sessions.grouping import SessionMatch
from daemon.gateway.admission import check_fits, check_supported
from daemon.gateway.answering import answer
from daemon.gateway.body import read_json
from daemon.gateway.call import Call, Place
from daemon.gateway.choices import Starter, said_of
from daemon.gateway.errors import json_response
from daemon.gateway.exchange import Exchange, Recorder
from daemon.gateway.gateway import begin
from daemon.gateway.routes.chat import form_of
from daemon.gateway.routes.messages import for_engine
from daemon.gateway.routes.messages import form_of as messages_form_of
from daemon.gateway.routes.responses import form_of as responses_form_of
from daemon.gateway.routes.responses import own_names
from daemon.gateway.security import caller_of
from daemon.gateway.steps import Steps
from daemon.gateway.wires.chat import check_message, engine_messages, parse
from daemon.gateway.wires.fields import array, bad, boolean, required_text, text
from daemon.gateway.wires.form import MakeForm
from daemon.gateway.wires.messages.request import check_last
from daemon.gateway.wires.messages.request import parse as parse_messages
from daemon.gateway.wires.responses.request import check_choice
from daemon.gateway.wires.responses.request import parse as parse_responses
from daemon.gateway.wires.tool_fields import parse_tools
from daemon.records import Inference, JSONObject
from daemon.services import Services
from daemon.tokens import Caller, Role

_BASE = "/reef/scenarios/{scenario}/evaluation/{candidate}/v1"


class _Unrecorded(Recorder):
    async def record(self, inference: Inference) -> None:
        """Nothing is kept here: the run that asked keeps what it needs."""


class _CandidateStarter(Starter):
    """Generates on one candidate, at the priority of evaluation."""

    def __init__(self, services: Services, candidate: str, run_id: str) -> None:
        self._services = services
        self._candidate = candidate
        self._run_id = run_id

    async def start(self, call: Call, place: Place, steps: Steps, index: int) -> Exchange:
        services = self._services
        lease = await services.serving.borrow(place.scenario, self._candidate, self._run_id)
        return begin(_Unrecorded(), lease, call, place, Priority.EVALUATION, steps, index)

    def added(self, records: Sequence[Inference]) -> JSONObject:
        """Token ids and log-probabilities, and no receipt: nothing was stored. `choices` has each one's where more were asked for."""
        added: JSONObject = {"release_id": records[0].release_id, "tokens": tokens_view(records[0])}
        if len(records) > 1:
            added["choices"] = [{"tokens": tokens_view(record)} for record in records]
        return added | said_of(records)

    def headers(self, records: Sequence[Inference]) -> dict[str, str]:
        return {}


class EvaluationRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [
            Route(f"{_BASE}/chat/completions", self.chat, methods=["POST"]),
            Route(f"{_BASE}/responses", self.responses, methods=["POST"]),
            Route(f"{_BASE}/messages", self.messages, methods=["POST"]),
            Route(f"{_BASE}/score", self.score, methods=["POST"]),
            Route(f"{_BASE}/render", self.render, methods=["POST"]),
            Route(f"{_BASE}/tokenize", self.tokenize, methods=["POST"]),
        ]

    async def chat(self, request: Request) -> ASGIApp:
        _target(request)
        call = parse(await self._body(request))
        return await self._answer(request, call, form_of(call))

    async def responses(self, request: Request) -> ASGIApp:
        _target(request)
        body = await self._body(request)
        with own_names():
            call = parse_responses(body)
            check_choice(call)
            return await self._answer(request, call, responses_form_of(body))

    async def messages(self, request: Request) -> ASGIApp:
        _target(request)
        body = await self._body(request)
        call = for_engine(parse_messages(body), self._services.engine.capabilities)
        check_last(call)
        return await self._answer(request, call, messages_form_of(call, body))

    async def score(self, request: Request) -> Response:
        """`tokens`, or `text` → log-probability of each token but the first."""
        scenario, candidate, caller = _target(request)
        body = await read_json(request)
        given = text(body, "text")
        tokens = _tokens(body) if given is None else []
        lease = await self._services.serving.borrow(scenario, candidate, caller.run_id)
        try:
            if given is not None:
                tokens = await lease.engine.tokenize(given, special=boolean(body, "special"))
            if not tokens:
                raise BadRequest("There is nothing to score.", "Send tokens or text.", param="tokens")
            logprobs = await lease.engine.score(tokens, lease.snapshot.lora, priority=Priority.EVALUATION)
        finally:
            lease.release()
        return json_response({"logprobs": list(logprobs)})

    async def render(self, request: Request) -> Response:
        """Token ids of a conversation under the model's own template; no serving hints are added."""
        _target(request)
        body = await read_json(request)
        messages = engine_messages(check_message(message, f"messages[{index}]") for index, message in enumerate(array(body, "messages")))
        prompt = boolean(body, "add_generation_prompt", otherwise=True)
        tokens = await self._services.engine.render(messages, parse_tools(body), add_generation_prompt=prompt)
        return json_response({"tokens": list(tokens)})

    async def tokenize(self, request: Request) -> Response:
        _target(request)
        body = await read_json(request)
        given = body.get("text")
        if given == "":
            return json_response({"tokens": []})
        tokens = await self._services.engine.tokenize(required_text(body, "text"), special=boolean(body, "special"))
        return json_response({"tokens": list(tokens)})

    async def _body(self, request: Request) -> JSONObject:
        """The request; a run need not name the model."""
        body = await read_json(request)
        return {**body, "model": body.get("model") or self._services.engine.model.id}

    async def _answer(self, request: Request, call: Call, make_form: MakeForm) -> ASGIApp:
        scenario, candidate, caller = _target(request)
        check_supported(call, self._services.engine.capabilities)
        check_fits(call, self._services.engine.model)
        place = Place(scenario, SessionMatch(caller.run_id or "evaluation", True))
        return await answer(_CandidateStarter(self._services, candidate, caller.run_id), request, call.each(), place, make_form)


def _target(request: Request) -> tuple[str, str, Caller]:
    """Scenario, candidate and caller. The middleware keeps a run's token to its own scenario."""
    caller = caller_of(request)
    if caller.role is Role.CLIENT:
        raise Forbidden("Evaluation needs a run's token or the owner's.", "Agents use /v1/chat/completions.")
    return str(request.path_params["scenario"]), str(request.path_params["candidate"]), caller


def _tokens(body: JSONObject) -> list[int]:
    tokens: list[int] = []
    for token in array(body, "tokens"):
        if isinstance(token, bool) or not isinstance(token, int) or token < 0:
            raise bad("tokens", "an array of token ids", token)
        tokens.append(token)
    return tokens
