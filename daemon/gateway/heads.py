"""A request's headers by name, read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from starlette.types import Scope

_KEY = "reef.headers"


def headers_of(scope: Scope) -> Mapping[str, str]:
    """Lower-case name → value; the first where there are several."""
    found = scope.get(_KEY)
    if found is None:
        found = scope[_KEY] = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
    return cast(Mapping[str, str], found)
