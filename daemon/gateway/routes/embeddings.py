"""POST /v1/embeddings: vectors of texts, where the engine can. Nothing is recorded: there is no reply to learn from."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.errors import BadRequest, Unsupported
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import Gateway
from daemon.gateway.sse import unless_hung_up
from daemon.gateway.wires.fields import bad, integer, required_text
from daemon.records import JSON, JSONObject

PATH = "/v1/embeddings"
MAX_TEXTS = 2048
_MAX_WIDTH = 1 << 20


@dataclass(frozen=True, slots=True)
class _Call:
    model: str
    texts: tuple[str, ...]
    as_base64: bool
    dimensions: int | None


class EmbeddingRoutes:
    """Also under a scenario's own path."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        paths = (PATH, f"/reef/scenarios/{{scenario}}{PATH}")
        return [Route(path, self.embed, methods=["POST"]) for path in paths]

    async def embed(self, request: Request) -> Response:
        call = parse(await read_json(request))
        found = await unless_hung_up(request.receive, self._gateway.embed(call.model, call.texts, request))
        data: list[JSON] = [
            {"object": "embedding", "index": index, "embedding": _written(_shortened(vector, call.dimensions), call.as_base64)}
            for index, vector in enumerate(found.vectors)
        ]
        usage: JSONObject = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
        return json_response({"object": "list", "model": call.model, "data": data, "usage": usage})


def parse(body: JSONObject) -> _Call:
    """Validate an embeddings request.

    Raises:
        BadRequest: names the field that is wrong.
        Unsupported: the input is token ids.
    """
    form = body.get("encoding_format")
    if form not in (None, "float", "base64"):
        raise bad("encoding_format", "float or base64", form)
    return _Call(required_text(body, "model", limit=512), _texts(body), form == "base64", integer(body, "dimensions", 1, _MAX_WIDTH))


def _texts(body: JSONObject) -> tuple[str, ...]:
    given = body.get("input")
    entries = [given] if isinstance(given, str) else given
    if not isinstance(entries, list) or not entries:
        raise bad("input", "a text or an array of texts", given)
    if len(entries) > MAX_TEXTS:
        raise BadRequest(f"'input' holds {len(entries)} texts; at most {MAX_TEXTS} are taken.", param="input")
    if any(isinstance(entry, int | list) for entry in entries):
        hint = "Send texts; in LangChain, set check_embedding_ctx_length to False."
        raise Unsupported("Input of token ids cannot be read: their numbers are another tokeniser's.", hint, param="input")
    texts: list[str] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, str) or not entry:
            raise bad("input" if entries is not given else f"input[{index}]", "a text that is not empty", entry)
        texts.append(entry)
    return tuple(texts)


def _shortened(vector: Sequence[float], dimensions: int | None) -> Sequence[float]:
    """The first `dimensions`, made of unit length again: what models trained for it mean by that."""
    if dimensions is None or dimensions == len(vector):
        return vector
    if dimensions > len(vector):
        raise BadRequest(f"'dimensions' must be at most {len(vector)}, the width of this model's vectors.", param="dimensions")
    kept = vector[:dimensions]
    length = math.hypot(*kept)
    return [each / length for each in kept] if length else kept


def _written(vector: Sequence[float], as_base64: bool) -> JSON:
    """Numbers, or little-endian float32 in base64, which is what SDKs ask for."""
    if not as_base64:
        return list(vector)
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
