"""What an upstream's refusals and failures mean here."""

from __future__ import annotations

import re

from daemon.errors import BadRequest, Busy, ContextOverflow, EngineError, NotFound, ReefError, TooLarge
from daemon.records import JSON

_CODE = re.compile(r"[a-z_]{1,64}")
_TOO_LONG = ("maximum context length", "prompt is too long")


class Unreachable(EngineError):
    """There is no server at the address, or it is not ready: it may be back soon."""


def unreachable(url: str) -> Unreachable:
    """There is no connection to it."""
    return Unreachable(f"The upstream {url} cannot be reached.", "Check that it runs and that engine.url is right.")


def distrusted(url: str, reason: str) -> Unreachable:
    """There is one, and it is not encrypted as it must be, or its certificate is not trusted."""
    hint = "Check engine.url. A certificate of your own is trusted if SSL_CERT_FILE names it when the daemon starts."
    return Unreachable(f"The upstream {url} cannot be reached safely: {reason}.", hint)


def too_late(url: str) -> EngineError:
    """It says nothing any more."""
    return EngineError(f"The upstream {url} did not answer in time.", "Send the request again.")


def broke(url: str) -> EngineError:
    """The connection ended where it should not have, or what came is no HTTP."""
    return EngineError(f"The connection to the upstream {url} broke.", "Send the request again.")


def refusal(status: int, body: JSON, retry_after: str | None = None) -> ReefError:
    """What an answer of this status with this body means."""
    return _meaning(status, body.get("error", body) if isinstance(body, dict) else None, retry_after)


def stream_error(error: JSON) -> ReefError:
    """What an error object in the middle of a stream means."""
    code = error.get("code") if isinstance(error, dict) else None
    return _meaning(code if isinstance(code, int) else 500, error, None)


def _meaning(status: int, error: JSON, retry_after: str | None) -> ReefError:
    said = error.get("message") if isinstance(error, dict) else error
    text = said if isinstance(said, str) and said else f"status {status}"
    code = error.get("code") if isinstance(error, dict) else None
    param = error.get("param") if isinstance(error, dict) else None
    message = f"The upstream says: {text[:2000]}"
    if code == "context_length_exceeded" or any(words in text.lower() for words in _TOO_LONG):
        return ContextOverflow(text[:2000])
    if status in (401, 403):
        return EngineError(message, "Check the key in the variable that engine.api_key_env names.")
    if status == 404:
        return NotFound(message, "Check engine.url and engine.model.")
    if status == 413:
        return TooLarge(message)
    if status == 429:
        return Busy(message, retry_after_s=_seconds(retry_after))
    if 400 <= status < 500:
        refused = BadRequest(message, param=param if isinstance(param, str) else None)
        if isinstance(code, str) and _CODE.fullmatch(code):
            refused.code = code  # clients go by it
        return refused
    return EngineError(message, "Send the request again.")


def _seconds(retry_after: str | None) -> int:
    """The header's seconds, at most a minute; a date, or nothing, is a second."""
    text = (retry_after or "").strip()
    return min(60, int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else 1
