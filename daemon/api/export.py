"""GET /reef/scenarios/{scenario}/export: its sessions in a form that other programs read, line by line."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from daemon.api.common import scenario_in_path
from daemon.errors import BadRequest, NotFound
from daemon.experience.exports import conversation, sessions
from daemon.exporting.conversation import Format
from daemon.exporting.formats import format_of, problem
from daemon.records import JSONObject
from daemon.redaction.redactor import Redactor
from daemon.redaction.settings import redaction_of
from daemon.services import Services

_PAGE = 100
_AT_ONCE_BYTES = 1 << 20
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class ExportRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/scenarios/{scenario}/export", self.export, methods=["GET"])]

    async def export(self, request: Request) -> Response:
        """JSON lines. `format`, and `session`, `since` (seconds since the epoch), `good_only`; with `summary` a last line
        `{"reef": {"lines", "sessions", "left_out"}}` says that nothing is missing, and what did not fit the format."""
        scenario, query = scenario_in_path(request, self._services), request.query_params
        form, since, session = format_of(query.get("format", "openai")), _since(query.get("since", "")), query.get("session", "")
        good_only, summary = _flag(query.get("good_only", ""), "good_only"), _flag(query.get("summary", ""), "summary")
        if session and not await asyncio.to_thread(sessions, self._services.reader, scenario, session=session, limit=1):
            raise NotFound(f"There is no session {session[:80]} in scenario {scenario}.", "`reef sessions` lists them.")
        lines = self._lines(scenario, form, since, session, good_only, summary)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    async def _lines(self, scenario: str, form: Format, since: float, session: str, good_only: bool, summary: bool) -> AsyncIterator[bytes]:
        reader, redactor = self._services.reader, redaction_of(self._services.config).of(scenario)
        left_out: Counter[str] = Counter()
        written = read = after = 0
        while page := await asyncio.to_thread(sessions, reader, scenario, after=after, since=since, session=session, limit=_PAGE):
            for number, name in page:
                found = self._of_session(form, redactor, scenario, (number, name), good_only, left_out)
                while portion := await asyncio.to_thread(_take, found):
                    written += len(portion)
                    yield b"".join(portion)
                    if self._services.stopping.is_set():
                        return
                read += 1
            after = page[-1][0]
        if summary:
            yield _line({"reef": {"lines": written, "sessions": read, "left_out": dict(left_out)}})

    def _of_session(
        self, form: Format, redactor: Redactor, scenario: str, session: tuple[int, str], good_only: bool, left_out: Counter[str]
    ) -> Iterator[bytes]:
        """The lines of one session, without secrets; one that its schema refuses is left out and counted."""
        for line in form.lines(conversation(self._services.reader, scenario, *session), good_only):
            clean = redactor.object(line)[0]
            wrong = problem(form.name, clean)
            if wrong is None:
                yield _line(clean)
            else:
                left_out[wrong if len(left_out) < _PAGE else "other reasons"] += 1


def _take(lines: Iterator[bytes]) -> list[bytes]:
    """The next lines, a bounded number of bytes but for the last of them: lines that repeat a long history can be large together."""
    taken: list[bytes] = []
    size = 0
    for line in lines:
        taken.append(line)
        size += len(line)
        if size >= _AT_ONCE_BYTES:
            break
    return taken


def _line(value: JSONObject) -> bytes:
    text = _ENCODER.encode(value) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a character, which only an escape can hold
        return (json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _since(text: str) -> float:
    try:
        since = float(text or 0)
    except ValueError:
        since = -1.0
    if not 0 <= since < 1e11:
        raise BadRequest(f"'since' must be seconds since the epoch, not {text[:40]!r}.", param="since")
    return since


def _flag(text: str, name: str) -> bool:
    if text not in ("", "true", "false", "1", "0"):
        raise BadRequest(f"'{name}' must be true or false, not {text[:40]!r}.", param=name)
    return text in ("true", "1")
