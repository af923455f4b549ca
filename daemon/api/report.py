"""POST /reef/report: feedback on receipts, or on a whole session; or how an agent's run ended. 200 means stored."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import known_scenario
from daemon.errors import BadRequest, NotFound
from daemon.experience.sessions.feedback import replies_of
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.wires.fields import an_object, bad, text, texts
from daemon.records import DEFAULT_SCENARIO, JSON, JSONObject, Report, new_id
from daemon.services import Services

_LIMIT_BYTES = 4 << 20
_MAX_REFERENCES = 1000
_MAX_ID_CHARACTERS = 200
_KEYS = frozenset({"agent_record_id", "references", "session", "score", "feedback", "metadata"})
_OUTCOMES = ("completed", "aborted", "failed")


class ReportRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/report", self.report, methods=["POST"])]

    async def report(self, request: Request) -> Response:
        body = await read_json(request, _LIMIT_BYTES)
        references, session = texts(body, "references", most=_MAX_REFERENCES), text(body, "session", limit=_MAX_ID_CHARACTERS)
        score, feedback = _score(body), _feedback(body.get("feedback"))
        metadata = an_object(body, "metadata") or {}
        if score is None and feedback is None and metadata.get("outcome") not in _OUTCOMES:
            raise BadRequest("A report needs a score or feedback.", _hint(body), param="score")
        report = Report(
            id=text(body, "agent_record_id", limit=_MAX_ID_CHARACTERS) or new_id("rep"),
            scenario=await self._scenario(request, references),
            created_at=time.time(),
            references=references,
            score=score,
            feedback=feedback,
            metadata=metadata,
        )
        if session:
            report = await asyncio.to_thread(self._of_session, report, session)
        await asyncio.wrap_future(self._services.store.append_report(report))
        self._services.serving.activity.note_stored(report.scenario)
        answer: JSONObject = {"agent_record_id": report.id, "scenario": report.scenario, "request_type": "report"}
        if session:
            answer |= {"session": session, "references": list(report.references)}
        return json_response(answer)

    def _of_session(self, report: Report, session: str) -> Report:
        """The same for every reply of a session that nobody has scored by itself. A retry speaks of the replies of the first time.

        Raises:
            BadRequest: it names receipts too, corrects, or every reply has a score of its own.
            NotFound: the session holds no turn.
        """
        if report.references:
            raise BadRequest("A report speaks of receipts or of a session, not of both.", "Send either.", param="session")
        if report.correction is not None:
            raise BadRequest("A correction belongs to one reply, not to a session.", "Name its receipt in references.", param="session")
        reader, metadata = self._services.reader, {**report.metadata, "session": session}
        with contextlib.suppress(NotFound):
            known = reader.report(report.id, report.scenario)
            if known.metadata.get("session") == session:
                return replace(report, references=known.references, metadata=metadata)
        replies = replies_of(reader, report.scenario, session)
        if not replies:
            raise NotFound(f"There is no session {session[:80]} in scenario {report.scenario}.", "`reef sessions` lists them.")
        references = tuple(receipt for receipt, own in replies if not own or report.score is None)
        if not references:
            raise BadRequest(f"Every reply of the session {session[:80]} has a score of its own.", "Name receipts.", param="session")
        return replace(report, references=references, metadata=metadata)

    async def _scenario(self, request: Request, references: tuple[str, ...]) -> str:
        """The one that the header names; else that of the first receipt; else the default one."""
        named = request.headers.get("x-reef-scenario", "").strip()
        if named:
            return known_scenario(named, self._services)
        if references:
            try:
                return (await asyncio.to_thread(self._services.reader.inference, references[0])).scenario
            except NotFound:
                return DEFAULT_SCENARIO  # where storing it will say which receipt is unknown
        return DEFAULT_SCENARIO


def _hint(body: JSONObject) -> str:
    """What to send; where keys were sent that are not read, where their content goes."""
    unknown = sorted(key for key in body if key not in _KEYS)
    if not unknown:
        return "Send score as a number, feedback as a text or an object."
    names = ", ".join(repr(key[:40]) for key in unknown[:3])
    return f'A report has no key {names}: a correction goes into feedback: {{"correction": "…"}}, a remark into feedback: {{"note": "…"}}.'


def _score(body: JSONObject) -> float | None:
    value = body.get("score")
    if value is None:
        return None
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.nan
    if not math.isfinite(number):
        raise bad("score", "a finite number", value)
    return number


def _feedback(value: JSON) -> str | JSONObject | None:
    if value is None or isinstance(value, str | dict):
        return value or None
    raise bad("feedback", "a text or an object", value)
