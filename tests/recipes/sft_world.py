"""Turns and a daemon's evaluation routes for tests of `sft`: a chat template over bytes, as the scripted engine has it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import httpx

from daemon.evolution.model_client import ModelClient
from daemon.experience.stream import Turn
from daemon.records import Inference, JSONObject, Message, Report, Sampling, Status, TokenTrace
from tests.engine.fake import END, render

_numbers = itertools.count(1)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def turn(
    prompt: str | Sequence[Message],
    reply: str = "what the model said",
    *,
    score: float | None = None,
    correction: str | None = None,
    lag: int = 0,
    redactions: int = 0,
    masked: tuple[tuple[int, int], ...] = (),
    status: Status = Status.OK,
    tokens: bool = True,
    request: JSONObject | None = None,
    model: str = "scripted",
    end: int = END,
) -> Turn:
    number = next(_numbers)
    messages = (user(prompt),) if isinstance(prompt, str) else tuple(prompt)
    prompt_ids, completion = tuple(render(messages, (), True)), (*reply.encode(), end)
    spans = tuple((len(prompt_ids) + start, len(prompt_ids) + stop) for start, stop in masked)  # counted from the reply's first token
    trace = TokenTrace(prompt_ids, completion, (-0.1,) * len(completion), spans)
    inference = Inference(
        id=f"rec_{number}",
        scenario="default",
        session="s",
        created_at=float(number),
        release_id="r1",
        lora_id=None,
        model=model,
        wire="chat",
        messages=messages,
        effective_messages=None,
        reply={"role": "assistant", "content": reply},
        finish_reason="stop",
        status=status,
        sampling=Sampling(temperature=0),
        tokens=trace if tokens else None,
        request=request or {},
        redactions=redactions,
        sequence=number,
    )
    reports: tuple[Report, ...] = ()
    if score is not None or correction is not None:
        feedback: JSONObject | None = {"correction": correction} if correction is not None else None
        reports = (Report(f"rep_{number}", "default", float(number), (inference.id,), score, feedback),)
    return Turn(inference, reports, lag=lag)


class Routes:
    """Answers `render` and `chat/completions`; `asked` holds (candidate, route, body)."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, JSONObject]] = []

    def client(self, candidate: str = "r1") -> ModelClient:
        http = httpx.Client(transport=httpx.MockTransport(self._handle), base_url="http://reef")
        return ModelClient(http, "/evaluation", candidate, model="scripted")

    def _handle(self, request: httpx.Request) -> httpx.Response:
        candidate, route = request.url.path.removeprefix("/evaluation/").split("/v1/")
        body = json.loads(request.content)
        self.asked.append((candidate, route, body))
        messages = tuple(body["messages"])
        if route == "render":
            return httpx.Response(200, json={"tokens": render(messages, tuple(body.get("tools", ())), body["add_generation_prompt"])})
        trace = {"prompt": render(messages, (), True), "completion": [*b"plain", END], "logprobs": [-1.0] * 6}
        choice = {"message": {"role": "assistant", "content": "plain"}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice], "reef": {"tokens": trace}})
