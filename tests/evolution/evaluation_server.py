"""The evaluation routes over a scripted engine, on a real socket: what a run process needs of a daemon."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from daemon.engine.base import Delta, Engine, Finished, GenerateRequest, Priority
from daemon.errors import ReefError
from daemon.records import Sampling
from daemon.serving.serving import Serving
from daemon.tokens import Tokens


@contextlib.asynccontextmanager
async def evaluation_server(engine: Engine, serving: Serving, tokens: Tokens) -> AsyncIterator[str]:
    """Its base URL."""

    async def answer(request: Request) -> Response:
        caller = tokens.identify(request.headers["authorization"].removeprefix("Bearer "))
        if caller is None or not caller.run_id:
            return JSONResponse({"error": {"code": "invalid_api_key", "message": "The token is wrong.", "hint": ""}}, 401)
        body = await request.json()
        try:
            lease = await serving.borrow(request.path_params["scenario"], request.path_params["candidate"], caller.run_id)
        except ReefError as error:
            return JSONResponse({"error": {"code": error.code, "message": error.message, "hint": error.hint}}, error.status)
        snapshot = lease.snapshot
        try:
            match request.path_params["route"]:
                case "tokenize":
                    return JSONResponse({"tokens": await engine.tokenize(body["text"])})
                case "render":
                    tokens_ = await engine.render(tuple(body["messages"]), add_generation_prompt=body["add_generation_prompt"])
                    return JSONResponse({"tokens": tokens_})
                case "score":
                    return JSONResponse({"logprobs": await engine.score(body["tokens"], snapshot.lora)})
            sampling = Sampling(temperature=body["temperature"], seed=body.get("seed"))
            asked = GenerateRequest(
                snapshot.hints.apply(tuple(body["messages"])),
                sampling,
                body["max_tokens"],
                lora=snapshot.lora,
                priority=Priority.EVALUATION,
            )
            text, finish, usage, trace = "", "", {}, None
            async for event in engine.generate(asked):
                if isinstance(event, Delta):
                    text += event.text
                elif isinstance(event, Finished):
                    finish = event.finish_reason
                    usage = {"prompt_tokens": event.usage.prompt_tokens, "completion_tokens": event.usage.completion_tokens}
                    trace = dataclasses.asdict(event.tokens) if event.tokens is not None else None
            message = {"role": "assistant", "content": text}
            return JSONResponse({"choices": [{"message": message, "finish_reason": finish}], "usage": usage, "reef": {"tokens": trace}})
        finally:
            lease.release()

    path = "/reef/scenarios/{scenario}/evaluation/{candidate}/v1/{route:path}"
    app = Starlette(routes=[Route(path, answer, methods=["POST"])])
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
