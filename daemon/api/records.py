"""Records: the stream of a scenario page by page, one record, and import."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import query_integer, scenario_in_path
from daemon.api.views import record_view
from daemon.errors import BadRequest
from daemon.experience.reader import ImportedRecord
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import scenario_of
from daemon.gateway.wires.fields import array, bad, required_text
from daemon.records import JSON, Inference, JSONObject, Report
from daemon.services import Services

_PAGE_LIMIT_BYTES = 1 << 20
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
            Route("/reef/scenarios/{scenario}/records/{record}", self.show, methods=["GET"]),
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
        record = _imported(body, "")
        return json_response((await self._store(scenario, [record]))[0])

    async def add_batch(self, request: Request) -> Response:
        """All or none."""
        scenario, body = scenario_of(request), await read_json(request, _PAGE_LIMIT_BYTES)
        given = array(body, "records")
        if not 1 <= len(given) <= _MAX_BATCH:
            raise BadRequest(f"'records' must hold 1 to {_MAX_BATCH} records, not {len(given)}.", param="records")
        records = [_imported(record, f"records[{index}].") for index, record in enumerate(given)]
        stored: list[JSON] = list(await self._store(scenario, records))
        return json_response({"records": stored})

    async def _store(self, scenario: str, records: Sequence[tuple[str, str, JSONObject]]) -> list[JSONObject]:
        await self._services.scenarios.ensure(scenario)
        items = [ImportedRecord(record, scenario, time.time(), kind, payload, 0) for record, kind, payload in records]
        await asyncio.wrap_future(self._services.store.append_imported(items))
        return [{"agent_record_id": record, "scenario": scenario, "request_type": kind} for record, kind, _ in records]

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


def _imported(record: JSON, where: str) -> tuple[str, str, JSONObject]:
    if not isinstance(record, dict):
        raise bad(where.removesuffix("."), "an object", record)
    payload = record.get("payload")
    if not isinstance(payload, dict):
        raise bad(f"{where}payload", "an object", payload)
    identity = required_text(record, "agent_record_id", limit=_MAX_ID_CHARACTERS)
    return identity, required_text(record, "request_type", limit=_MAX_ID_CHARACTERS), payload
