"""POST /reef/train: what the user tells the scenario's recipe in words. Stored; recipes that take instructions read it from the stream."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.errors import BadRequest
from daemon.experience.instructions import TRAIN
from daemon.experience.reader import ImportedRecord
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import scenario_of
from daemon.gateway.security import caller_of
from daemon.gateway.wires.fields import required_text, text
from daemon.records import new_id
from daemon.services import Services

_MAX_CHARACTERS = 4000
_LIMIT_BYTES = 64 << 10
_MAX_ID_CHARACTERS = 200


class TrainRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/train", self.train, methods=["POST"])]

    async def train(self, request: Request) -> Response:
        """200 means stored. The same id and text again: the stored one; another text under it: 409."""
        scenario, body = scenario_of(request), await read_json(request, _LIMIT_BYTES)
        words = required_text(body, "text", limit=_MAX_CHARACTERS).strip()
        if not words:
            raise BadRequest("'text' is empty.", "Say in words what is to be learned.", param="text")
        record = text(body, "agent_record_id", limit=_MAX_ID_CHARACTERS) or new_id("ins")
        payload = {"text": words, "who": caller_of(request).role.value}
        await self._services.scenarios.ensure(scenario)
        await asyncio.wrap_future(
            self._services.store.append_imported([ImportedRecord(record, scenario, time.time(), TRAIN, {**payload}, 0)])
        )
        path = f"/reef/scenarios/{scenario}/records/{quote(record, safe='', errors='replace')}"
        return json_response({"agent_record_id": record, "scenario": scenario, "request_type": TRAIN, "page_path": path})
