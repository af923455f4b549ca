"""The description at /openapi.json is of what is served: every route, and answers in the form that it says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from jsonschema import Draft202012Validator

from daemon.app import all_routes
from daemon.openapi.document import OPERATIONS, document
from daemon.records import JSON
from tests.daemon.running import running
from tests.gateway.api_fuzzing import PLACES, attack

_AGAIN = "/reef/scenarios/{scenario}/v1/"


async def test_every_route_is_described_and_every_description_has_a_route(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        served = {
            (method, re.sub(r":\w+}", "}", route.path))
            for route in all_routes(daemon.services, daemon.gateway)
            for method in (route.methods or set()) - {"HEAD"}
        }
        told = {(operation.method, operation.path) for operation in OPERATIONS}
        assert len(told) == len(OPERATIONS), "a route is described twice"
        assert served - told == set(), "served, and not described in daemon/openapi"
        assert told - served == set(), "described, and not served"
        answer = await daemon.client.get("/openapi.json")
        assert answer.json() == document(daemon.services.version)
        assert (await daemon.bare.get("/openapi.json")).status_code == 401


def test_what_it_refers_to_is_there_and_each_schema_is_one() -> None:
    whole = document("1")
    components = whole["components"]
    assert isinstance(components, dict)
    schemas = components["schemas"]
    assert isinstance(schemas, dict)
    names, wanted = list[str](), set[str]()

    def walk(value: JSON) -> None:
        if isinstance(value, dict):
            if isinstance(target := value.get("$ref"), str):
                wanted.add(target.removeprefix("#/components/schemas/"))
            if isinstance(name := value.get("operationId"), str):
                names.append(name)
            if isinstance(schema := value.get("schema"), dict):
                Draft202012Validator.check_schema(schema)
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(whole)
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    assert wanted <= schemas.keys() and schemas.keys() <= wanted
    assert len(names) == len(set(names)) == len(OPERATIONS)


async def test_requests_made_from_it_get_answers_that_it_describes(tmp_path: Path) -> None:
    """By an agent's token: what needs the owner's is refused, as described. Routes below a scenario's address are those of /v1 again."""
    async with running(tmp_path) as daemon:
        turn = (await daemon.chat("hello")).headers["x-reef-agent-record-id"]
        session = daemon.services.reader.inference(turn).session
        token = daemon.client.headers["authorization"].removeprefix("Bearer ")
        places = {**PLACES, "record": turn, "session": session}
        sent, seen = await asyncio.to_thread(
            attack, daemon.url, token, places, examples=1, number=1, skip=lambda _, path: path.startswith(_AGAIN)
        )
        assert sent > 100 and {200, 400, 403} <= seen
        assert (await daemon.chat("still there")).status_code == 200
