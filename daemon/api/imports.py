"""POST /reef/import: conversations that were held elsewhere, as records. Idempotent: what is there already is only counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.imported_records import IMPORT, report_id
from daemon.api.joining import Joined, join
from daemon.errors import BadRequest, Conflict, DataError
from daemon.experience.sessions.grouping import session_id
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import scenario_of
from daemon.gateway.wires.fields import array
from daemon.importing.conversation import conversations
from daemon.importing.transfer import sessions_from_json
from daemon.records import JSON, Inference, JSONObject, Report
from daemon.services import Services

_MAX_SESSIONS = 1000
_AT_ONCE = 64
_MESSAGES_AT_ONCE = 2000
"""Records, and messages of all of them, that are written in one transaction: live requests wait no longer than that takes."""
_MAX_REFUSED = 100


class ImportRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/import", self.take, methods=["POST"])]

    async def take(self, request: Request) -> Response:
        """`{"sessions": [{"id"?, "tools"?, "tags"?, "turns": [{"added", "reply", "parent"?, "score"?, "feedback"?, …}]}]}`."""
        scenario, body = scenario_of(request), await read_json(request)
        given = array(body, "sessions")
        if not 1 <= len(given) <= _MAX_SESSIONS:
            raise BadRequest(f"'sessions' must hold 1 to {_MAX_SESSIONS} sessions, not {len(given)}.", param="sessions")
        try:
            sessions = await asyncio.to_thread(sessions_from_json, given)
        except DataError as error:
            raise BadRequest(error.message, error.hint, param="sessions") from error
        await self._services.scenarios.ensure(scenario)
        counts: Counter[str] = Counter()
        refused: list[JSON] = []
        joined = await asyncio.to_thread(lambda: [join(self._services.reader, scenario, session) for session in sessions])
        counts["present"] = sum(len(one.scenarios) for one in joined)
        for items in _portions(joined, scenario):
            await self._store(items, counts, refused)
            self._services.serving.activity.touch(scenario)  # no run begins between two pages of an import
        return json_response(
            {
                "scenario": scenario,
                "sessions": len(sessions),
                "new": counts["new"],
                "present": counts["present"],
                "reports": counts["reports"],
                "refused": refused,
            }
        )

    async def _store(self, items: Sequence[Inference | Report], counts: Counter[str], refused: list[JSON]) -> None:
        """All at once; where an id is taken by something else, one by one, so that only that one is left out."""
        try:
            found = await asyncio.wrap_future(self._services.store.append_imported(items))
        except (Conflict, BadRequest) as error:
            if len(items) == 1:
                if len(refused) < _MAX_REFUSED:
                    refused.append({"agent_record_id": items[0].id, "message": error.message})
                return
            for item in items:
                await self._store([item], counts, refused)
            return
        for item, is_new in zip(items, found, strict=True):
            if isinstance(item, Inference):
                counts["new" if is_new else "present"] += 1
            else:
                counts["reports"] += is_new


def _portions(joined: Sequence[Joined], scenario: str) -> Iterator[list[Inference | Report]]:
    """The records of sessions with their feedback, a bounded number at a time."""
    portion: list[Inference | Report] = []
    messages = 0
    for session in joined:
        for items in _items(session, scenario):
            portion += items
            messages += sum(len(item.messages) for item in items if isinstance(item, Inference))
            if len(portion) >= _AT_ONCE or messages >= _MESSAGES_AT_ONCE:
                yield portion
                portion, messages = [], 0
    if portion:
        yield portion


def _items(joined: Joined, scenario: str) -> Iterator[list[Inference | Report]]:
    """Each turn with its feedback; of one that was served here only the feedback, where its record is. Which turn it goes on from is
    found by what it holds, as with every record that was not placed."""
    session = joined.session
    now = time.time()
    for turn, messages in zip(session.turns, conversations(session), strict=True):
        record = Inference(
            id=turn.id,
            scenario=scenario,
            session=session_id(session.id),
            created_at=now if turn.created_at is None else min(turn.created_at, now),
            release_id=IMPORT,
            lora_id=None,
            model=turn.model,
            wire=IMPORT,
            messages=messages,
            effective_messages=None,
            reply=turn.reply,
            finish_reason=turn.finish_reason or ("tool_calls" if turn.reply.get("tool_calls") else "stop"),
            usage=turn.usage,
            request={"tools": list(session.tools)} if session.tools else {},
            tags=session.tags,
        )
        holds = joined.scenarios.get(turn.id)
        items: list[Inference | Report] = [record] if holds is None else []
        if turn.score is not None or turn.feedback:
            said: JSONObject = {"of": turn.id, "score": turn.score, "feedback": turn.feedback}
            metadata: JSONObject = {"source": IMPORT}
            items.append(Report(report_id(said), holds or scenario, now, (turn.id,), turn.score, turn.feedback, metadata))
        yield items
