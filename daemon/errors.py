"""Every error that Reef raises on purpose: a sentence, a hint, and the HTTP status that carries it.

Foreign exceptions are mapped to these where they enter. The gateway renders them in the wire's own
shape, `/reef/*` as `{"error": {"code", "message", "hint"}}`, the command line as two lines and exit code 1.
"""

from __future__ import annotations


class ReefError(Exception):
    """What the user can mend. `message` is one sentence; `hint` says what to type or set next."""

    status = 500
    code = "internal_error"

    def __init__(self, message: str, hint: str = "", *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.param = param  # the request field or setting that is at fault, where there is one

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class BadRequest(ReefError):
    status, code = 400, "invalid_request_error"


class ContextOverflow(BadRequest):
    """The prompt does not fit the served window; agents compact when they read this code."""

    code = "context_length_exceeded"


class Unauthorized(ReefError):
    status, code = 401, "invalid_api_key"


class Forbidden(ReefError):
    status, code = 403, "permission_denied"


class NotFound(ReefError):
    status, code = 404, "not_found"


class Conflict(ReefError):
    """Somebody else was first: a stale head, a reused id with other content, a run under way."""

    status, code = 409, "conflict"


class TooLarge(ReefError):
    status, code = 413, "request_too_large"


class Busy(ReefError):
    """A bounded queue is full. `retry_after_s` goes into the `retry-after` header."""

    status, code = 429, "overloaded"

    def __init__(self, message: str, hint: str = "", *, retry_after_s: int = 1) -> None:
        super().__init__(message, hint)
        self.retry_after_s = retry_after_s


class Unsupported(ReefError):
    """The engine, the model or the machine cannot do what was asked."""

    status, code = 400, "unsupported"


class EngineError(ReefError):
    """The engine failed or is not there; the request may be sent again, after `retry_after_s`."""

    status, code = 503, "engine_unavailable"

    def __init__(self, message: str, hint: str = "", *, param: str | None = None, retry_after_s: int = 1) -> None:
        super().__init__(message, hint, param=param)
        self.retry_after_s = retry_after_s


class StorageError(ReefError):
    """The disk is full, read-only or returned an I/O error; nothing was half written."""

    status, code = 507, "storage_failed"


class ConfigError(ReefError):
    """A setting is unknown, duplicated or has a wrong type; the message names file and line."""

    status, code = 400, "invalid_configuration"


class DataError(ReefError):
    """A file is not what it claims to be: a GGUF, a LoRA, a manifest, a task."""

    status, code = 422, "invalid_data"
