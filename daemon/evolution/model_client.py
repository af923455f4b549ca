"""A run's way to the engine: the daemon's evaluation routes, with the run's own token.

What is asked here is kept with the run and stays out of the experience stream. Every call blocks; the daemon answers it
after all live requests, one sequence at a time, so that the batch shape is the same for every candidate.

Wire: `POST {prefix}/{candidate}/v1/chat/completions`, `…/v1/render`, `…/v1/tokenize`, `…/v1/score`. A chat reply carries the engine's
trace as `"reef": {"tokens": {"prompt": [ids], "completion": [ids], "logprobs": [nats]}}` where the engine has one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from daemon.errors import BadRequest, Busy, ContextOverflow, EngineError, NotFound, ReefError, Unauthorized, Unsupported
from daemon.evolution.budget import Budget
from daemon.records import JSONObject, Message, TokenTrace, Usage

_BUSY_TRIES = 30


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a served model, a candidate or the teacher."""

    message: Message
    finish_reason: str
    usage: Usage
    tokens: TokenTrace | None  # None: the engine gives none
    seconds: float

    @property
    def text(self) -> str:
        content = self.message.get("content")
        return content if isinstance(content, str) else ""


class ModelClient:
    """One model, candidate or release, spoken to over loopback. Errors are those of `daemon.errors`."""

    def __init__(self, http: httpx.Client, prefix: str, candidate: str, *, model: str = "", budget: Budget | None = None) -> None:
        """
        Args:
            http: a client with base URL and token; closed by whoever made it.
            prefix: path before the candidate's name, such as `/reef/scenarios/default/evaluation`; empty: `http` speaks to a
                plain OpenAI-compatible endpoint whose base URL ends in `/v1`.
            candidate: a release id, `head`, `base`, or a candidate of this run.
            budget: what may be spent; None: any number of tokens.
        """
        self._http = http
        self._prefix = prefix
        self.candidate = candidate
        self._model = model
        self._budget = budget

    def at(self, candidate: str) -> ModelClient:
        """The same engine under another release (`r14`), candidate, `head`, or `base` (no LoRA, no hints)."""
        return ModelClient(self._http, self._prefix, candidate, model=self._model, budget=self._budget)

    def chat(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int | None = None,
        tools: Sequence[JSONObject] = (),
        extra: JSONObject | None = None,
    ) -> Reply:
        """Answer `messages`; serving hints of the release or candidate apply. `extra`: further request fields."""
        if self._budget is not None:
            self._budget.check()
        body: JSONObject = {"model": self._model, "messages": list(messages), "max_tokens": max_tokens, "temperature": temperature}
        if seed is not None:
            body["seed"] = seed
        if tools:
            body["tools"] = list(tools)
        body.update(extra or {})
        started = time.monotonic()
        answer = self._post("chat/completions", body, _Chat)
        usage = Usage(answer.usage.prompt_tokens, answer.usage.completion_tokens)
        if self._budget is not None:
            self._budget.spend(usage, answer.usage.cost)
        trace = answer.reef.tokens if answer.reef is not None else None
        tokens = TokenTrace(tuple(trace.prompt), tuple(trace.completion), tuple(trace.logprobs)) if trace is not None else None
        choice = answer.choices[0]
        return Reply(choice.message, choice.finish_reason or "stop", usage, tokens, time.monotonic() - started)

    def render(self, messages: Sequence[Message], tools: Sequence[JSONObject] = (), *, add_generation_prompt: bool = True) -> list[int]:
        """Token ids of a conversation under the model's own template; no hints are added."""
        body: JSONObject = {"messages": list(messages), "add_generation_prompt": add_generation_prompt}
        if tools:
            body["tools"] = list(tools)
        return self._post("render", body, _Tokens).tokens

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of `text` as the engine splits it."""
        return self._post("tokenize", {"text": text, "special": special}, _Tokens).tokens

    def score(self, tokens: Sequence[int]) -> list[float]:
        """Log-probability (nats, temperature 1) of each token but the first: `len(tokens) - 1` values."""
        return self._post("score", {"tokens": list(tokens)}, _Logprobs).logprobs

    def _post(self, route: str, body: JSONObject, shape: type[_Shape]) -> _Shape:
        path = f"{self._prefix}/{self.candidate}/v1/{route}" if self._prefix else route
        for attempt in range(_BUSY_TRIES):
            try:
                response = self._http.post(path, json=body)
            except httpx.TimeoutException as error:
                raise EngineError("The model did not answer in time.", "See `reef logs`.") from error
            except httpx.HTTPError as error:
                raise EngineError(f"The model cannot be reached: {error}.", "Is the daemon running? Type `reef status`.") from error
            if response.status_code not in (429, 503) or attempt == _BUSY_TRIES - 1:
                break
            time.sleep(min(2.0, 0.1 * (attempt + 1)))  # live requests go first; a restarted engine needs a moment
        if response.status_code >= 400:
            raise _error(response)
        try:
            return shape.model_validate_json(response.content)
        except ValidationError as error:
            raise EngineError(f"The model's answer to {route} has an unexpected form.", "See `reef logs`.") from error


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Trace(_Loose):
    prompt: list[int]
    completion: list[int]
    logprobs: list[float]


class _Reef(_Loose):
    tokens: _Trace | None = None


class _Choice(_Loose):
    message: dict[str, JsonValue]
    finish_reason: str | None = None


class _Usage(_Loose):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


class _Chat(_Loose):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage = _Usage()
    reef: _Reef | None = None


class _Tokens(_Loose):
    tokens: list[int]


class _Logprobs(_Loose):
    logprobs: list[float]


_Shape = TypeVar("_Shape", _Chat, _Tokens, _Logprobs)


class _ErrorBody(_Loose):
    message: str = ""
    hint: str = ""
    code: str | None = None


class _ErrorReply(_Loose):
    error: _ErrorBody


def _error(response: httpx.Response) -> ReefError:
    """The daemon's own sentence, as the error class that its status and code stand for."""
    try:
        body = _ErrorReply.model_validate_json(response.content).error
    except ValidationError:
        body = _ErrorBody(message=f"The model answered with HTTP status {response.status_code}.")
    kinds: dict[int, type[ReefError]] = {401: Unauthorized, 403: Unauthorized, 404: NotFound, 429: Busy}
    kind: type[ReefError] = kinds.get(response.status_code, EngineError if response.status_code >= 500 else BadRequest)
    for special in (ContextOverflow, Unsupported):
        if body.code == special.code:
            kind = special
    return kind(body.message, body.hint)
