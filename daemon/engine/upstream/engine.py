"""Another server as the engine: requests go through, replies stream back, errors keep their meaning.

A request on a wire that the server speaks is passed on as it is, and so is the reply; others are translated to a wire that it speaks.
A request is sent once: what failed after that is the client's to repeat. Connections are kept for the next request.

Without token ids nothing that trains weights can use what it says; harness recipes can. Structured replies, filling in and embeddings
are declared, for the server answers for itself. Only the URL that the user named is called, without proxies and without following
redirects. A server that is away is looked for until it is back; requests try it meanwhile, and say that it cannot be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

import orjson

from daemon.config import UpstreamConfig
from daemon.engine.base import (
    Capability,
    Counted,
    Embedded,
    Engine,
    Event,
    GenerateRequest,
    LoRA,
    ModelInfo,
    Priority,
    Stats,
)
from daemon.engine.upstream.answers import vectors_of, window_of
from daemon.engine.upstream.bodies import raise_for_status, read_whole
from daemon.engine.upstream.client import Client
from daemon.engine.upstream.connection import Connection
from daemon.engine.upstream.errors import Unreachable, refusal, unreachable
from daemon.engine.upstream.json_reading import json_or_none
from daemon.engine.upstream.messages.request import counting_body_of
from daemon.engine.upstream.messages.wire import COUNT_PATH, MessagesWire
from daemon.engine.upstream.replies import passed, passed_whole, translated
from daemon.engine.upstream.wire import UpstreamWire
from daemon.engine.upstream.wires import WIRES, wire_for
from daemon.errors import BadRequest, Busy, EngineError, NotFound, ReefError, Unsupported
from daemon.records import JSONObject, Message

_CAPABILITIES = Capability.STRUCTURE | Capability.FILL_IN_MIDDLE | Capability.EMBEDDINGS | Capability.IMAGES
_CONNECT_TIMEOUT_S = 10
_READ_TIMEOUT_S = 300  # between two pieces, a long prompt being read included
_MAX_CONNECTIONS = 320  # more than live requests are let in
_IDLE_S = {"http": 4, "https": 60}
"""How long an unused connection is kept. Servers that people run themselves close one after five seconds; whoever sends a request at
that moment cannot know whether it arrived. Behind TLS are those that keep it longer, and where a new one is dear."""
_LOOK_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0
_NOT_READY = (502, 503, 504)  # a proxy whose server is away, or a server that loads its model
_UNKNOWN_CONTEXT_TOKENS = 32768  # where the server does not say
_NO_WINDOW = "The upstream does not say how long its context is."


class UpstreamEngine(Engine):
    """A pooled client of one server."""

    def __init__(self, config: UpstreamConfig) -> None:
        self._config = config
        self._model = ModelInfo(id=config.model, context_tokens=_UNKNOWN_CONTEXT_TOKENS)
        self._wires = frozenset(config.wires)
        self._key = ""
        self._client: Client | None = None
        self._stats = Stats("starting")
        self._active = 0
        self._looking: asyncio.Task[None] | None = None

    @property
    def capabilities(self) -> Capability:
        return _CAPABILITIES

    @property
    def wires(self) -> frozenset[str]:
        return self._wires

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def stats(self) -> Stats:
        return replace(self._stats, active=self._active)

    async def start(self) -> None:
        """Open the connection pool and ask for the model's window. A server that is away is waited for in the background.

        Raises:
            EngineError: the key is not set, or the server refuses it.
        """
        name = self._config.api_key_env
        if name and not os.environ.get(name):
            raise EngineError(f"The variable {name} is not set.", "Set it to the upstream's key and start again.")
        self._key = os.environ[name] if name else ""
        self._client = Client(
            self._config.url,
            connect_timeout_s=_CONNECT_TIMEOUT_S,
            read_timeout_s=_READ_TIMEOUT_S,
            idle_s=_IDLE_S.get(self._config.url.partition(":")[0], 4),
        )
        try:
            await self._look(self._client)
        except Unreachable as error:
            self._is_away(error)
        except ReefError:
            await self.stop()
            raise

    async def stop(self) -> None:
        client, self._client, self._stats = self._client, None, Stats("stopped")
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        if client is not None:
            client.close()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        forward = request.forward
        if forward is not None and not forward.stream:
            for event in await self.whole(request):
                yield event
            return
        wire = WIRES[forward.wire] if forward is not None else wire_for(request, self._config.wires)
        answer = await self._sent(wire, request)
        try:
            reader = wire.reader()
            parts = translated(answer, reader) if forward is None else passed(answer, reader)
            async with contextlib.aclosing(parts):
                async for event in parts:
                    yield event
            yield reader.finished()
        finally:
            self._give_back(answer)

    async def whole(self, request: GenerateRequest) -> list[Event]:
        forward = request.forward
        if forward is None or forward.stream:
            return await super().whole(request)
        wire = WIRES[forward.wire]
        answer = await self._sent(wire, request)
        try:
            reader = wire.reader()
            return [await passed_whole(answer, reader), reader.finished()]
        finally:
            self._give_back(answer)

    async def _sent(self, wire: UpstreamWire, request: GenerateRequest) -> Connection:
        """Raises as `_post` does, and for what cannot be asked of another server."""
        if request.max_tokens is not None and request.max_tokens < 1:
            raise BadRequest("max_tokens must be at least 1.", param="max_tokens")
        if request.lora is not None:
            raise _unsupported("load a LoRA")
        forward = request.forward
        if forward is None:
            return await self._post(wire.path, _json(wire.body(request, self._config.model)), wire.headers(self._key))
        return await self._post(wire.path, forward.body, {**wire.headers(self._key), **forward.headers})

    async def embed(self, texts: tuple[str, ...]) -> Embedded:
        body = {"model": self._config.model, "input": list(texts), "encoding_format": "float"}
        headers = WIRES["completions"].headers(self._key)
        return vectors_of(json_or_none(await self._asked("embeddings", orjson.dumps(body), headers)), len(texts))

    async def count(self, request: GenerateRequest) -> Counted:
        """The server's own count where it speaks the messages wire, which has a route for that; else an estimate."""
        if MessagesWire.name in self.wires:
            wire, forward = WIRES[MessagesWire.name], request.forward
            body = forward.body if forward is not None else _json(counting_body_of(request, self._config.model))
            headers = {**wire.headers(self._key), **(forward.headers if forward is not None else {})}
            with contextlib.suppress(NotFound):  # not every server of this wire has the route
                answer = json_or_none(await self._asked(COUNT_PATH, body, headers))
                if isinstance(answer, dict) and isinstance(tokens := answer.get("input_tokens"), int):
                    return Counted(tokens)
        return await super().count(request)

    async def load_lora(self, lora: LoRA) -> None:
        raise _unsupported("load a LoRA")

    async def unload_lora(self, lora_id: str) -> None:
        raise _unsupported("load a LoRA")

    async def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        raise _unsupported("give token ids")

    async def pieces(self, tokens: list[int]) -> list[bytes]:
        raise _unsupported("give token ids")

    async def render(
        self, messages: tuple[Message, ...], tools: tuple[JSONObject, ...] = (), *, add_generation_prompt: bool = True
    ) -> list[int]:
        raise _unsupported("give token ids")

    async def score(self, tokens: list[int], lora: LoRA | None = None, *, priority: Priority = Priority.EVALUATION) -> list[float]:
        raise _unsupported("score a given text")

    def _started(self) -> Client:
        if self._client is None:
            raise EngineError("The upstream engine is not started.", "Start the daemon again.")
        return self._client

    async def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Connection:
        """Send a request. Its answer, which is no refusal, is there to be read, and to be given back. A server that is away is noticed.

        Raises:
            ReefError: what a refusal or a failure means.
        """
        client = self._started()
        if self._active >= _MAX_CONNECTIONS:
            raise Busy("All connections to the upstream are in use.", "Try again in a moment.", retry_after_s=5)
        self._active += 1
        answer = None
        try:
            answer = await client.ask("POST", path, {"content-type": "application/json", **headers}, body)
            await raise_for_status(answer)
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise EngineError("The upstream compressed its reply without being asked.", "Turn that off there.")
        except BaseException as error:
            if answer is not None:
                client.give_back(answer)
            self._active -= 1
            if isinstance(error, Unreachable):
                self._is_away(error)
            raise
        return answer

    def _give_back(self, answer: Connection) -> None:
        self._active -= 1
        if self._client is not None:
            self._client.give_back(answer)
        else:
            answer.close()  # the engine was stopped meanwhile

    async def _asked(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The whole answer. Raises as `_post` does."""
        answer = await self._post(path, body, headers)
        try:
            return await read_whole(answer)
        finally:
            self._give_back(answer)

    async def _look(self, client: Client) -> None:
        """Ask for the models: the server is there, and may say how long its context is.

        Raises:
            Unreachable: it is away, or does not answer.
            EngineError: it refuses the key.
        """
        try:
            async with asyncio.timeout(_LOOK_TIMEOUT_S):
                answer = await client.ask("GET", "models", WIRES[self._config.wires[0]].headers(self._key))
                try:
                    data, status = await read_whole(answer), answer.status
                finally:
                    client.give_back(answer)
        except EngineError as error:
            raise Unreachable(error.message, error.hint) from error
        except TimeoutError as error:
            raise unreachable(self._config.url) from error
        body = json_or_none(data)
        if status in _NOT_READY:
            raise Unreachable(f"The upstream {self._config.url} is not ready: status {status}.", "Wait until it is.")
        if status in (401, 403):
            raise refusal(status, body)
        window = window_of(body, self._config.model)
        if window:
            self._model = ModelInfo(id=self._config.model, context_tokens=window)
        self._stats = Stats("ready", detail="" if window else _NO_WINDOW)

    def _is_away(self, error: ReefError) -> None:
        """Say so in the status, and look for it until it is back."""
        self._stats = replace(self._stats, state="restarting", detail=error.message)
        if self._client is not None and self._looking is None:
            self._looking = asyncio.create_task(self._look_until_back(self._client), name="upstream-lookout")

    async def _look_until_back(self, client: Client) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)
            try:
                await self._look(client)
            except ReefError as error:
                self._stats = replace(self._stats, state="restarting", detail=error.message)
            else:
                self._looking = None
                return


def _json(body: JSONObject) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # half a character, or a number beyond 64 bits
        return json.dumps(body, allow_nan=False).encode()


def _unsupported(what: str) -> Unsupported:
    return Unsupported(f"An upstream engine cannot {what}.", "Set engine.kind: llama for what needs this.")
