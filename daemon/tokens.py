"""Who may do what: the client's and the owner's token, and the tokens of runs, which die with them.

Tokens are compared by value in constant time. They are never put into arguments, addresses or logs.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from enum import StrEnum
from hmac import compare_digest
from pathlib import Path

from daemon.errors import ConfigError, Forbidden
from daemon.files import write_atomic
from daemon.paths import Home

_TOKEN_BYTES = 32


class Role(StrEnum):
    CLIENT = "client"  # infer, report, import, read, propose
    OWNER = "owner"  # also promote, roll back, forget, run and configure
    RUN = "run"  # evaluate for one run, while it lasts


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token a request carried."""

    role: Role
    scenario: str = ""  # of a run's token: the only scenario it may touch
    run_id: str = ""

    def require_owner(self, what: str) -> None:
        """Raise `Forbidden` unless the owner asks: an agent's token would approve its own edits."""
        if self.role is not Role.OWNER:
            hint = "Use the token in tokens/owner of Reef's home."
            raise Forbidden(f"{what} needs the owner's token, this is a {self.role} token.", hint)


_CLIENT, _OWNER = Caller(Role.CLIENT), Caller(Role.OWNER)


class Tokens:
    """The tokens that this daemon accepts."""

    def __init__(self, client: str, owner: str, *, without_token: Role | None = None) -> None:
        self._client = client.encode()
        self._owner = owner.encode()
        self._runs: dict[str, tuple[bytes, Caller]] = {}
        self._without_token = without_token  # an explicit setting: loopback callers without a token get this role

    @classmethod
    def load(cls, home: Home, *, without_token: Role | None = None) -> Tokens:
        """Read both token files, making what is missing (mode 0600).

        Raises:
            ConfigError: a token file is readable by others, too short, or unreadable.
        """
        return cls(_read_or_make(home.client_token), _read_or_make(home.owner_token), without_token=without_token)

    def identify(self, presented: str) -> Caller | None:
        """The caller that `presented` belongs to; None for a wrong or missing token."""
        if not presented:
            return Caller(self._without_token) if self._without_token is not None else None
        value = presented.encode("utf-8", "surrogateescape")
        found: Caller | None = None
        if compare_digest(value, self._client):
            found = _CLIENT
        if compare_digest(value, self._owner):
            found = _OWNER
        for token, caller in self._runs.values():
            if compare_digest(value, token):
                found = caller
        return found

    def issue(self, run_id: str, scenario: str) -> str:
        """A token for the episodes of one run."""
        token = f"reef-run-{secrets.token_urlsafe(_TOKEN_BYTES)}"
        self._runs[run_id] = (token.encode(), Caller(Role.RUN, scenario=scenario, run_id=run_id))
        return token

    def revoke(self, run_id: str) -> None:
        self._runs.pop(run_id, None)


def _read_or_make(path: Path) -> str:
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(path, f"reef-{path.name}-{secrets.token_urlsafe(_TOKEN_BYTES)}\n", 0o600)
        if os.stat(path).st_mode & 0o077:
            raise ConfigError(f"The token file {path} can be read by other users.", f"chmod 600 {path}")
        token = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        hint = "Mend its permissions, or remove it to get a new one."
        raise ConfigError(f"Cannot read the token file {path}: {error.strerror}.", hint) from error
    if len(token) < 16:
        raise ConfigError(f"The token in {path} is too short.", "Remove the file to get a new one.")
    return token
