"""Requests made from the daemon's own description, valid and not: none may fail the daemon, and each answer is as described."""

from __future__ import annotations

import copy
from collections.abc import Callable

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import openapi
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode

from daemon.openapi.document import document

CHECKED = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
ENDLESS = {"/reef/events"}
"""Answers that never end: tests/api/test_events.py."""
PLACES = {
    "scenario": "default",
    "model": "scripted",
    "candidate": "base",
    "release": "r1",
    "before": "r1",
    "after": "head",
}


def described(version: str = "0") -> dict[str, object]:
    """The description, narrowed to what the scripted engine serves, so that valid requests get as far as an answer."""
    found = copy.deepcopy(document(version))
    paths = found["paths"]
    assert isinstance(paths, dict)
    for operations in paths.values():
        assert isinstance(operations, dict)
        for operation in operations.values():
            parameters = operation.get("parameters", [])
            operation["parameters"] = [one for one in parameters if one["name"] != "x-reef-scenario"]  # each new name is a new scenario
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "model" in body.get("properties", {}):
                body["properties"]["model"] = {"enum": ["scripted"]}
    return found  # type: ignore[return-value]


def attack(
    url: str, token: str, places: dict[str, str], *, examples: int, number: int, skip: Callable[[str, str], bool]
) -> tuple[int, set[int]]:
    """Send `examples` valid and as many invalid requests to each route.

    Returns:
        How many were sent, and the statuses that came back. Fails where an answer is none that the description has.
    """
    schema = openapi.from_dict(described())
    checks = [CHECKS.get_one(name) for name in CHECKED]
    headers = {"authorization": f"Bearer {token}"}
    sent, seen = 0, set[int]()

    for found in schema.get_all_operations():
        operation = found.ok()
        if skip(operation.method.upper(), operation.path) or operation.path in ENDLESS:
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            fixed = {name: value for name, value in places.items() if f"{{{name}}}" in operation.path}
            strategy = operation.as_strategy(mode, path_parameters=fixed)

            @seed(number)
            @settings(
                max_examples=examples,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=strategy)
            def one(case: schemathesis.Case) -> None:
                nonlocal sent
                response = case.call(base_url=url, headers=headers, timeout=20)
                sent += 1
                seen.add(response.status_code)
                assert response.status_code < 500, f"{case.as_curl_command()}\n{response.status_code} {response.text[:500]}"
                case.validate_response(response, checks=checks)

            try:
                one()
            except Exception as error:
                if type(error).__name__ in ("Unsatisfiable", "NoGenerationModes"):  # this route takes nothing that could be wrong
                    continue
                raise
    return sent, seen
