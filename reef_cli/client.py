"""Speaks HTTP with the daemon. Every failure is a sentence with a hint.

Uses the standard library alone: httpx would take three times as long to import as a whole command runs.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from daemon import __version__
from daemon.errors import BadRequest, Conflict, EngineError, Forbidden, NotFound, ReefError, Unauthorized
from daemon.paths import Home
from reef_cli import running
from reef_cli.locations import home as default_home

if TYPE_CHECKING:
    from daemon.records import JSONObject

_TIMEOUT_S = 60.0
_MOST_ERROR_BYTES = 32 << 20  # an error may show files
_SILENT_S = 20.0  # a stream that lives says at least so often that it does
_ERRORS: Mapping[int, type[ReefError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    503: EngineError,
}


class NeedsYes(Conflict):
    """A person has to say yes to what the guard found; `shown` holds the `findings` and the `files` that they are in."""

    def __init__(self, message: str, hint: str, shown: JSONObject) -> None:
        super().__init__(message, hint)
        self.shown = shown


class Client:
    """One home's daemon, asked with the owner's token: whoever can read that file is the owner."""

    def __init__(self, home: Home | None = None) -> None:
        """Raises `NotFound` if no daemon runs, `Unauthorized` if there is no token to read."""
        self.home = home or default_home()
        self.daemon = running.require(self.home)
        if self.daemon.version != __version__:
            print(
                f"Note: the daemon is version {self.daemon.version}, this command {__version__}. To renew it: reef down && reef up",
                file=sys.stderr,
            )
        try:
            self._token = self.home.owner_token.read_text(encoding="utf-8").strip()
        except OSError as error:
            hint = "Run this as the user who ran `reef init`, or make a token: reef init --yes"
            raise Unauthorized(f"Cannot read {self.home.owner_token}: {error.strerror}.", hint) from error

    def get(self, path: str, query: Mapping[str, str | int | None] | None = None, scenario: str = "") -> JSONObject:
        present = {name: str(value) for name, value in (query or {}).items() if value not in (None, "")}
        return self._ask("GET", f"{path}?{urlencode(present)}" if present else path, None, _scenario_header(scenario))

    def post(self, path: str, body: JSONObject, scenario: str = "", *, timeout_s: float = _TIMEOUT_S) -> JSONObject:
        """`scenario` goes into a header, for the routes that have none in their path."""
        return self._ask("POST", path, body, _scenario_header(scenario), timeout_s)

    def delete(self, path: str) -> JSONObject:
        return self._ask("DELETE", path)

    def events(self, path: str, after: int = 0, unless: Callable[[], bool] = lambda: False) -> Iterator[JSONObject]:
        """Server-sent events, each with its `cursor`, until the daemon ends the stream.

        Args:
            unless: asked at each line, of which a silent stream brings one every few seconds: True ends it here.

        Raises:
            EngineError: the connection broke, or the daemon hangs; ask again with `after` = the last cursor seen.
        """
        connection, response = self._send("GET", f"{path}?after={after}", None, {"last-event-id": str(after)}, _SILENT_S)
        try:
            cursor, data = after, list[str]()
            for raw in response:
                if unless():
                    return
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                if line.startswith("id:"):
                    cursor = int(line[3:].strip() or cursor)
                elif line.startswith("data:"):
                    data.append(line[5:].strip())
                elif not line and data:
                    event = json.loads("\n".join(data))
                    data.clear()
                    if isinstance(event, dict):
                        yield {"cursor": cursor, **event}
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EngineError("The connection to the daemon broke.", "See what it says: reef logs") from error
        finally:
            connection.close()

    def lines(self, path: str, query: Mapping[str, str | int | None]) -> Iterator[bytes]:
        """A long answer line by line, as it comes.

        Raises:
            EngineError: the connection broke.
        """
        present = {name: str(value) for name, value in query.items() if value not in (None, "")}
        connection, response = self._send("GET", f"{path}?{urlencode(present)}", None, {}, _TIMEOUT_S)
        try:
            yield from response
        except (OSError, http.client.HTTPException) as error:
            raise EngineError("The connection to the daemon broke.", "See what it says: reef logs") from error
        finally:
            connection.close()

    def _ask(
        self,
        method: str,
        path: str,
        body: JSONObject | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> JSONObject:
        connection, response = self._send(method, path, body, headers or {}, timeout_s)
        try:
            parsed = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EngineError(f"The daemon's answer to {path} cannot be read.", "See what it says: reef logs") from error
        finally:
            connection.close()
        return parsed if isinstance(parsed, dict) else {"items": parsed}

    def _send(
        self, method: str, path: str, body: JSONObject | None, more: Mapping[str, str], timeout_s: float | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self.daemon.host.strip("[]"), self.daemon.port, timeout=timeout_s)
        headers = {"authorization": f"Bearer {self._token}", "accept": "application/json", "user-agent": f"reef/{__version__}", **more}
        payload = None
        if body is not None:
            headers["content-type"] = "application/json"
            payload = json.dumps(body).encode()
        try:
            connection.request(method, path, payload, headers)
            response = connection.getresponse()
        except TimeoutError as error:
            raise EngineError(f"The daemon did not answer within {timeout_s:.0f} s.", "See what it does: reef logs") from error
        except (OSError, http.client.HTTPException) as error:
            hint = f"It should listen at {self.daemon.url} (process {self.daemon.pid}); see what it says: reef logs"
            raise EngineError("The daemon does not answer.", hint) from error
        if response.status >= 300:
            text = response.read(_MOST_ERROR_BYTES)
            connection.close()
            raise _error(response.status, text, path)
        return connection, response


def _scenario_header(scenario: str) -> dict[str, str]:
    return {"x-reef-scenario": scenario} if scenario else {}


def segment(name: str) -> str:
    """One part of a path, whatever a person typed. Raises BadRequest for nothing: that would name what lies above it."""
    if not name:
        raise BadRequest("A name is empty.", "Name what is meant; the lists show what there is: reef releases, reef runs, reef sessions.")
    return quote(name, safe="")


def scenario_path(scenario: str, *parts: str) -> str:
    return "/".join(("/reef/scenarios", segment(scenario), *(segment(part) for part in parts)))


def _error(status: int, text: bytes, path: str) -> ReefError:
    kind = _ERRORS.get(status, ReefError)
    try:
        answer = json.loads(text)
        error = answer["error"]
        if error.get("code") == "unconfirmed":
            return NeedsYes(
                str(error["message"]), str(error.get("hint") or ""), {name: one for name, one in answer.items() if name != "error"}
            )
        return kind(str(error["message"]), str(error.get("hint") or ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return kind(f"The daemon answered {path} with status {status}.", "See what it says: reef logs")
