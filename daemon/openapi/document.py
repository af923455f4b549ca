"""The whole description, as `GET /openapi.json` serves it: https://spec.openapis.org/oas/v3.1.0"""

from __future__ import annotations

from daemon.openapi.components import SCHEMAS
from daemon.openapi.experience import EXPERIENCE
from daemon.openapi.inference import INFERENCE
from daemon.openapi.live import LIVE
from daemon.openapi.operation import Operation
from daemon.openapi.releases import RELEASES
from daemon.records import JSONObject

OPERATIONS: tuple[Operation, ...] = (*INFERENCE, *EXPERIENCE, *RELEASES, *LIVE)
_ABOUT = "Every route but /healthz needs a token. Unknown fields are ignored; known ones with a bad value are a 400 that names them."


def document(version: str) -> JSONObject:
    """The OpenAPI document of this daemon."""
    paths: dict[str, JSONObject] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = operation.described()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Reef", "version": version, "description": _ABOUT},
        "security": [{"bearer": []}, {"key": []}],
        "paths": {path: paths[path] for path in paths},
        "components": {
            "schemas": {name: schema for name, schema in SCHEMAS.items()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }
