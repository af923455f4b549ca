"""Records: the stream of a scenario page by page, one record, and import."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import query_integer, scenario_in_path
from daemon.api.imported_records import Importer
from daemon.api.views import record_view
from daemon.errors import BadRequest
from daemon.experience.reader import ImportedRecord
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import scenario_of
from daemon.gateway.security import caller_of
from daemon.gateway.wires.fields import array, bad, required_text
from daemon.importing.envelope import Envelope
from daemon.records import JSON, Inference, JSONObject, Report
from daemon.services import Services

_PAGE_LIMIT_BYTES = 10 << 20  # what reef-client sends at most
_MAX_BATCH = 1000
_MAX_ID_CHARACTERS = 200


class RecordRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [
            Route("/reef/records", self.add, methods=["POST"]),
            Route("/reef/records/batch", self.add_batch, methods=["POST"]),
            Route("/reef/scenarios/{scenario}/records", self.list_all, methods=["GET"]),
            Route("/reef/scenarios/{scenario}/records/{record:path}", self.show, methods=["GET"]),
        ]

    async def list_all(self, request: Request) -> Response:
        """In order; `after_sequence` is the last one seen, `request_type` inference, report or what an import named itself."""
        scenario = scenario_in_path(request, self._services)
        after = query_integer(request, "after_sequence", 0, 0, (1 << 63) - 1)
        limit = query_integer(request, "limit", 50, 1, 100)
        kind = request.query_params.get("request_type") or None
        records: list[JSON] = list(await asyncio.to_thread(self._page, scenario, after, limit, kind))
        return json_response({"records": records})

    async def show(self, request: Request) -> Response:
        scenario, record = scenario_in_path(request, self._services), str(request.path_params["record"])
        return json_response(record_view(await asyncio.to_thread(self._services.reader.record, scenario, record)))

    async def add(self, request: Request) -> Response:
        scenario, body = scenario_of(request), await read_json(request, _PAGE_LIMIT_BYTES)
        stored, _ = await self._store(request, scenario, [_envelope(body, "")])
        return json_response(stored[0])

    async def add_batch(self, request: Request) -> Response:
        """All or none. Inferences and reports become records like those of this daemon; what is something else is kept as it is."""
        scenario, body = scenario_of(request), await read_json(request, _PAGE_LIMIT_BYTES)
        given = array(body, "records")
        if not 1 <= len(given) <= _MAX_BATCH:
            raise BadRequest(f"'records' must hold 1 to {_MAX_BATCH} records, not {len(given)}.", param="records")
        envelopes = [_envelope(record, f"records[{index}].") for index, record in enumerate(given)]
        stored, new = await self._store(request, scenario, envelopes)
        records: list[JSON] = list(stored)
        return json_response({"records": records, "new": new})

    async def _store(self, request: Request, scenario: str, envelopes: Sequence[Envelope]) -> tuple[list[JSONObject], int]:
        """What is acknowledged, and how many of them are new."""
        await self._services.scenarios.ensure(scenario)
        store = self._services.store
        items = await asyncio.to_thread(Importer(store, scenario, caller_of(request).role.value).items, envelopes)
        found = await asyncio.wrap_future(store.append_imported(items))
        self._services.serving.activity.touch(scenario)  # no run begins between two pages of an import
        answers: list[JSONObject] = [
            {"agent_record_id": envelope.id, "scenario": scenario, "request_type": envelope.request_type} for envelope in envelopes
        ]
        return answers, sum(found)

    def _page(self, scenario: str, after: int, limit: int, kind: str | None) -> list[JSONObject]:
        reader = self._services.reader
        items: list[Inference | Report | ImportedRecord] = []
        if kind is None:
            items += reader.items(scenario, after, limit)
            items += reader.imported(scenario, after, limit)
        elif kind == "inference":
            items += reader.items(scenario, after, limit, "inference")
        elif kind == "report":
            items += reader.items(scenario, after, limit, "report")
        else:
            items += reader.imported(scenario, after, limit, kind)
        items.sort(key=lambda item: item.sequence)
        return [record_view(item) for item in items[:limit]]


def _envelope(record: JSON, where: str) -> Envelope:
    if not isinstance(record, dict):
        raise bad(where.removesuffix("."), "an object", record)
    payload = record.get("payload")
    if not isinstance(payload, dict):
        raise bad(f"{where}payload", "an object", payload)
    identity = required_text(record, "agent_record_id", limit=_MAX_ID_CHARACTERS)
    return Envelope(identity, required_text(record, "request_type", limit=_MAX_ID_CHARACTERS), payload)
