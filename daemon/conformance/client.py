"""Sends the suite's requests; every failure is a sentence, and every answer is bounded in time and size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import TracebackType

import httpx

from daemon import json_text
from daemon.conformance.outcome import Failed, Refused, shorten
from daemon.conformance.replies import Reply, StreamReader, read_whole
from daemon.conformance.shapes import a_text, an_object
from daemon.conformance.target import Target
from daemon.errors import EngineError
from daemon.records import JSON, JSONObject

ANSWER_S = 300.0
"""pi gives up after so long a silence."""
_LOOK_AGAIN_S = (0.5, 1.5, 3.0)
"""A server that somebody watches over comes back."""
_MAX_BYTES = 8 << 20
_MAX_CHUNKS = 20_000


class Client:
    """An async context manager."""

    def __init__(self, target: Target, transport: httpx.AsyncBaseTransport | None = None, answer_s: float = ANSWER_S) -> None:
        """`transport` replaces the network."""
        headers = {"authorization": f"Bearer {target.key}"} if target.key else {}
        timeout = httpx.Timeout(answer_s, connect=10)
        self._http = httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=False, transport=transport)
        self._target = target
        self._answer_s = answer_s
        self.seconds = 0.0  # that the last request took
        self.silences = 0  # requests that were not answered in time
        self.down_since = ""  # the check during which the server went away
        self._broken = False

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._http.aclose()

    async def models(self) -> list[JSONObject]:
        """What the server lists.

        Raises:
            EngineError: it does not answer, or refuses the key.
        """
        url = f"{self._target.url}/models"
        try:
            async with asyncio.timeout(self._answer_s):
                answer = await self._http.get(url)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            hint = "See what it says: reef logs" if self._target.is_ours else "Start that server, or mend the URL."
            raise EngineError(f"{self._target.url} does not answer: {error or type(error).__name__}.", hint) from error
        if answer.status_code in (401, 403):
            hint = "Name the variable that holds it: reef doctor --tools --url URL --key-env NAME"
            raise EngineError(f"{self._target.url} refuses the key (status {answer.status_code}).", hint)
        listed = an_object(_parsed(answer.content)).get("data") if answer.status_code < 400 else None
        return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []

    async def look_if_broken(self, check: str) -> None:
        """After a broken connection: whether the server is there at all."""
        if not self._broken:
            return
        self._broken = False
        for pause_s in _LOOK_AGAIN_S:
            try:
                await self.models()
            except EngineError:
                await asyncio.sleep(pause_s)
            else:
                return
        self.down_since = check

    async def answers(self, path: str) -> bool:
        """Whether there is such a route: an empty request is refused there, and computes nothing."""
        try:
            async with asyncio.timeout(30):
                answer = await self._http.post(f"{self._target.url}{path}", json={})
        except (httpx.HTTPError, TimeoutError):
            return False
        return answer.status_code not in (401, 403, 404, 405, 501)

    async def whole(self, body: JSONObject) -> Reply:
        """One reply that is not streamed.

        Raises:
            Refused: an error status.
            Failed: no answer, or none that can be read.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._answer_s):
                answer = await self._http.post(self._target.chat_url, json=body)
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._silent(error) from error
        self.seconds = time.monotonic() - began
        if answer.status_code >= 400:
            raise _refused(answer.status_code, answer.content)
        if len(answer.content) > _MAX_BYTES:
            raise Failed(f"The reply is larger than {_MAX_BYTES >> 20} MiB.")
        parsed = _parsed(answer.content)
        if not isinstance(parsed, dict):
            raise Failed("The reply is no JSON object.")
        if "error" in parsed:
            raise _refused(answer.status_code, answer.content)
        return read_whole(parsed)

    async def streamed(self, body: JSONObject) -> Reply:
        """One streamed reply, read to its end. Raises as `whole` does."""
        began = time.monotonic()
        asked: JSONObject = {**body, "stream": True, "stream_options": {"include_usage": True}}
        try:
            async with asyncio.timeout(self._answer_s), self._http.stream("POST", self._target.chat_url, json=asked) as answer:
                if answer.status_code >= 400:
                    raise _refused(answer.status_code, await answer.aread())
                if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                    raise Failed(f"A stream was asked for, and {answer.headers.get('content-type', 'no content type')!r} came.")
                reply = await _read(answer)
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._silent(error) from error
        self.seconds = time.monotonic() - began
        return reply

    async def events(self, path: str, body: JSONObject) -> list[JSONObject]:
        """What a stream on another wire holds, event by event. Raises as `whole` does."""
        began = time.monotonic()
        url = self._target.chat_url.removesuffix("/chat/completions") + path
        try:
            async with asyncio.timeout(self._answer_s), self._http.stream("POST", url, json={**body, "stream": True}) as answer:
                if answer.status_code >= 400:
                    raise _refused(answer.status_code, await answer.aread())
                found = [event async for event in _events(answer) if event]
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._silent(error) from error
        self.seconds = time.monotonic() - began
        return found

    def _silent(self, error: Exception) -> Failed:
        if isinstance(error, TimeoutError | httpx.TimeoutException):
            self.silences += 1
            return Failed(f"No answer within {self._answer_s:g} s.")
        self._broken = True
        return Failed(f"The connection broke: {shorten(str(error)).rstrip('.') or type(error).__name__}.")


async def _read(answer: httpx.Response) -> Reply:
    reader, done = StreamReader(), False
    async for chunk in _events(answer):
        if not chunk:
            done = True
            break
        reader.add(chunk)
        if reader.error:
            raise Failed(f"The stream broke off with an error: {shorten(reader.error)}")
    return reader.end(done=done)


async def _events(answer: httpx.Response) -> AsyncIterator[JSONObject]:
    """The objects of a stream's events; an empty one for `[DONE]`."""
    count = 0
    async for line in answer.aiter_lines():
        if not line.startswith("data:"):
            continue  # comments that keep the connection alive, empty lines, names of events
        data = line[5:].strip()
        count += 1
        chunk = {} if data == "[DONE]" else _parsed(data.encode())
        if not isinstance(chunk, dict) or count > _MAX_CHUNKS:
            raise Failed("A line of the stream is no JSON object." if count <= _MAX_CHUNKS else "The stream does not end.")
        yield chunk


def _parsed(data: bytes) -> JSON:
    try:
        return json_text.parse(data)
    except ValueError:
        return None


def _refused(status: int, data: bytes) -> Refused:
    parsed = an_object(_parsed(data[:_MAX_BYTES]))
    error = parsed.get("error")
    text = (
        a_text(an_object(error).get("message")) or a_text(error) or a_text(parsed.get("message")) or data[:500].decode("utf-8", "replace")
    )
    return Refused(status, a_text(an_object(error).get("code")), text)
