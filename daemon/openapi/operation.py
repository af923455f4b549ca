"""One route as OpenAPI describes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from daemon.openapi.schema import TEXT
from daemon.records import JSON, JSONObject

_PARAMETER = re.compile(r"{(\w+)}")
_WORDS = re.compile(r"[^a-zA-Z0-9]+")
_REASONS = {
    200: "Done.",
    201: "Made.",
    400: "The request is not what this route takes; the error names the field.",
    401: "The token is missing or wrong.",
    403: "The host, the origin or the token may not do this.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    409: "Somebody else was first: the head has moved, the id is taken, a run is under way.",
    413: "Too large.",
    414: "The address is too long.",
    415: "The body is not JSON, or its encoding is not gzip.",
    422: "A file is not what it claims to be.",
    429: "A bounded queue is full; retry-after says when to try again.",
    500: "A bug in Reef; the log has the details.",
    503: "The engine is not there; retry-after says when to try again.",
    507: "The disk refused. Nothing was half written.",
    529: "The engine is not there, in the words of this wire.",
}


class Errors(StrEnum):
    """In whose shape a route answers errors."""

    OPENAI = "OpenAIError"
    ANTHROPIC = "AnthropicError"
    REEF = "ReefError"


@dataclass(frozen=True, slots=True)
class Operation:
    """`path` has `{name}` for what varies; each name is a text."""

    method: str
    path: str
    summary: str
    area: str
    answers: Mapping[int, JSONObject]  # by status; a schema
    body: JSONObject | None = None
    query: Mapping[str, JSONObject] = field(default_factory=dict)
    headers: Mapping[str, JSONObject] = field(default_factory=dict)  # that a client may send
    errors: tuple[int, ...] = ()  # beside those that every route can give
    shape: Errors = Errors.REEF
    media: str = "application/json"
    streams: bool = False  # it may answer with server-sent events instead
    owner: bool = False  # needs the owner's token
    answer_headers: Mapping[str, str] = field(default_factory=dict)  # name → what it holds

    def described(self) -> JSONObject:
        """The operation object."""
        found: JSONObject = {
            "operationId": _WORDS.sub("_", f"{self.method.lower()} {self.path}").strip("_"),
            "summary": self.summary,
            "tags": [self.area],
            "responses": self._responses(),
        }
        parameters = [*self._parameters()]
        if parameters:
            found["parameters"] = parameters
        if self.body is not None:
            content: JSONObject = {"application/json": {"schema": self.body}}
            found["requestBody"] = {"required": True, "content": content}
        if self.owner:
            found["description"] = "Needs the owner's token."
        return found

    def _parameters(self) -> list[JSON]:
        found: list[JSON] = []
        for name in _PARAMETER.findall(self.path):
            found.append({"name": name, "in": "path", "required": True, "schema": {**TEXT, "minLength": 1}})
        found += [{"name": name, "in": "query", "schema": schema} for name, schema in self.query.items()]
        found += [{"name": name, "in": "header", "schema": schema} for name, schema in self.headers.items()]
        return found

    def _responses(self) -> JSONObject:
        found: JSONObject = {}
        told: JSONObject = {
            name: {"description": text, "schema": TEXT}
            for name, text in {"x-request-id": "The client's id of this request, or a new one.", **self.answer_headers}.items()
        }
        for status, schema in self.answers.items():
            content: JSONObject = {self.media: {"schema": schema}}
            if self.streams:
                content["text/event-stream"] = {"schema": TEXT}
            found[str(status)] = {"description": _REASONS.get(status, "Done."), "headers": told, "content": content}
        failing = {400, 401, 403, 413, 414, 500, 507, *self.errors}
        failing |= {404} if "{" in self.path else set()
        failing |= {408, 415} if self.body is not None else set()
        for status in sorted(failing):
            if str(status) not in found:
                error: JSONObject = {"application/json": {"schema": {"$ref": f"#/components/schemas/{self.shape.value}"}}}
                found[str(status)] = {"description": _REASONS[status], "content": error}
        return found
