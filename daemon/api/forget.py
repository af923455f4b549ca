"""POST /reef/scenarios/{s}/forget: erase a session or a record, and say which releases it concerns."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import require_owner, scenario_in_path
from daemon.errors import BadRequest
from daemon.forgetting import Forgetting, Forgotten, Plan
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.wires.fields import text
from daemon.records import JSON, JSONObject
from daemon.services import Services


class ForgetRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._forgetting = Forgetting(services)

    def routes(self) -> list[Route]:
        return [Route("/reef/scenarios/{scenario}/forget", self.forget, methods=["POST"])]

    async def forget(self, request: Request) -> Response:
        """`{session}` or `{record}`; with `dry_run` nothing changes, with `retire` LoRAs that were trained on it serve no more."""
        who = require_owner(request, "Forgetting")
        scenario, body = scenario_in_path(request, self._services), await read_json(request)
        session, record = text(body, "session") or None, text(body, "record") or None
        if (session is None) == (record is None):
            raise BadRequest(
                "Name a session or a record, and one of them only.", '{"session": "ses_…"} or {"record": "rec_…"}', param="session"
            )
        dry_run, retire = _flag(body, "dry_run"), _flag(body, "retire")
        plan = await self._forgetting.plan(scenario, session=session, record=record)
        done = None if dry_run else await self._forgetting.carry_out(plan, who, retire=retire)
        return json_response(_view(plan, done))


def _flag(body: JSONObject, name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise BadRequest(f"'{name}' must be true or false.", param=name)
    return value


def _view(plan: Plan, done: Forgotten | None) -> JSONObject:
    doomed = plan.doomed
    releases: list[JSON] = [
        {
            "scenario": one.scenario,
            "release_id": one.release_id,
            "state": one.state.value,
            "trained": one.trained,
            "files": one.files,
            "serving": one.serving,
        }
        for one in plan.touched
    ]
    return {
        "scenario": doomed.scenario,
        "session": doomed.session,
        "records": list(doomed.receipts),
        "reports": list(doomed.reports),
        "runs": list(doomed.runs),
        "repeated_in": list(doomed.repeated_in),
        "releases": releases,
        "copies": list(plan.copies),
        "forgotten": done is not None,
        "head": done.head if done is not None else None,
        "files": done.files if done is not None else 0,
        "dropped": list(done.dropped) if done is not None else [],
        "scrubbed": done.scrubbed if done is not None else False,
    }
