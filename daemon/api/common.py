"""What the routes of several resources need."""

from __future__ import annotations

import re

from starlette.requests import Request

from daemon.errors import BadRequest, NotFound
from daemon.gateway.security import caller_of
from daemon.services import Services

_INTEGER = re.compile(r"-?[0-9]{1,19}")


def scenario_in_path(request: Request, services: Services) -> str:
    """The scenario that the path names. Raises `NotFound` for one that does not serve."""
    return known_scenario(str(request.path_params["scenario"]), services)


def known_scenario(name: str, services: Services) -> str:
    if services.serving.head(name) is None:
        known = ", ".join(sorted(services.serving.heads)[:8])
        raise NotFound(f"There is no scenario {name[:80]!r}.", f"There are: {known}." if known else "Send a request first.")
    return name


def require_owner(request: Request, what: str) -> str:
    """The name that goes into the operation log. Raises `Forbidden` for an agent's token."""
    caller = caller_of(request)
    caller.require_owner(what)
    return caller.role.value


def query_integer(request: Request, name: str, default: int, low: int, high: int) -> int:
    """An integer of the query string. Raises `BadRequest` outside of `low` … `high`."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
        raise BadRequest(f"'{name}' must be an integer from {low} to {high}, not {text[:40]!r}.", param=name)
    return int(text)


def query_optional_integer(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    return query_integer(request, name, 0, 0, (1 << 63) - 1) if text else None


def query_flag(request: Request, name: str) -> bool:
    """`?name=1` or `true`. Raises `BadRequest` for anything that is neither yes nor no."""
    text = request.query_params.get(name, "")
    if text not in ("", "0", "1", "false", "true"):
        raise BadRequest(f"'{name}' must be true or false, not {text[:40]!r}.", param=name)
    return text in ("1", "true")
