"""Sessions: newest first, searchable; one with its turns and reports."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import query_integer, query_optional_integer, scenario_in_path
from daemon.api.views import session_view, turn_view
from daemon.experience.sessions.listing import SessionSummary
from daemon.experience.sessions.turns import SessionTurn
from daemon.gateway.errors import json_response
from daemon.records import JSON, JSONObject, Step, TurnKind
from daemon.services import Services

_SEARCH_WAIT_S = 1.0  # for the index to take up what was written last; the newest are found without it


class SessionRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        base = "/reef/scenarios/{scenario}/sessions"  # a client may have put a slash into its session's id
        return [
            Route(base, self.list, methods=["GET"]),
            Route(f"{base}/{{session:path}}", self.show, methods=["GET"]),
            Route(f"{base}/{{session:path}}/update", self.update, methods=["POST"]),
        ]

    async def list(self, request: Request) -> Response:
        """`next` is the `before` of the next page; null at the end. With `q` those whose turns or reports hold its words and "phrases"."""
        scenario = scenario_in_path(request, self._services)
        limit = query_integer(request, "limit", 50, 1, 200)
        before, words = query_optional_integer(request, "before"), request.query_params.get("q", "")[:1000]
        if words:
            await asyncio.to_thread(self._services.store.catch_up, _SEARCH_WAIT_S)
        found = await asyncio.to_thread(self._services.reader.sessions, scenario, limit, before, words)
        sessions: list[JSON] = [self._view(summary) for summary in found]
        return json_response({"sessions": sessions, "next": found[-1].cursor if len(found) == limit else None})

    async def show(self, request: Request) -> Response:
        """Each turn with what it adds to the one that it follows; `?messages=all` gives each one's whole request too.

        All of them, or `limit` from the place `from` on; without `from` the last ones. `first` is the place of the first one given,
        `all` how many there are, asides and retries among them; each turn's `number` counts without those.
        """
        scenario, session = scenario_in_path(request, self._services), str(request.path_params["session"])
        whole = request.query_params.get("messages") == "all"
        limit, start = query_integer(request, "limit", 0, 1, 1000), query_optional_integer(request, "from")
        view = await asyncio.to_thread(self._services.reader.session, session, scenario)
        first = start if start is not None else max(0, len(view.turns) - limit) if limit else 0
        shown = view.turns[first : first + limit if limit else None]
        number = sum(_counts(turn) for turn in view.turns[:first])
        turns: list[JSON] = []
        for turn in shown:
            number += _counts(turn)
            turns.append({**turn_view(turn, whole=whole), "number": number if _counts(turn) else None})
        return json_response({**self._view(view.summary), "turns": turns, "first": first, "all": len(view.turns)})

    async def update(self, request: Request) -> Response:
        """Let a session that is under way take the release that serves now with its next request."""
        scenario, session = scenario_in_path(request, self._services), str(request.path_params["session"])
        await asyncio.to_thread(self._services.reader.session, session, scenario)
        self._services.serving.update_session(scenario, session)
        head = self._services.serving.head(scenario)
        return json_response({"session": session, "release_id": head.release_id if head is not None else None})

    def _view(self, summary: SessionSummary) -> JSONObject:
        """With `live`: it is under way on the release `keeps`, and `answering`: a request of it is in flight."""
        kept = self._services.serving.under_way(summary.scenario, summary.id)
        live: JSONObject = {"live": kept is not None, "answering": kept is not None and kept[1], "keeps": kept[0] if kept else None}
        return {**session_view(summary), **live}


def _counts(turn: SessionTurn) -> bool:
    """Whether it is a turn of its own: no aside, retry or further choice."""
    return turn.inference.kind is TurnKind.TURN and turn.inference.lineage.step not in (Step.RETRY, Step.CHOICE)
