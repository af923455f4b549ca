"""The responses wire over the embedded model: what real agents send is answered, and their next turn is not read anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.reef_home import MANUAL, ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


@pytest.fixture(scope="module")
def reef(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReefHome]:
    with ReefHome(tmp_path_factory.mktemp("responses") / "home", MANUAL) as running:
        running.start()
        yield running


def replay(reef: ReefHome, name: str) -> dict[str, Any]:
    """The response in the last event of a captured request with a short reply."""
    body = {**json.loads((CAPTURES / f"{name}.json").read_text())["body"], "model": reef.model, "max_output_tokens": 16}
    answer = reef.request("POST", "/v1/responses", body, who="client", timeout=240)
    assert answer.status_code == 200, answer.text
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert events[-1]["type"] in ("response.completed", "response.incomplete") and events[-1]["reef"]["agent_record_id"]
    response: dict[str, Any] = events[-1]["response"]
    return response


@pytest.mark.parametrize("agent", ["codex", "pi-responses"])
def test_the_second_turn_of_an_agent_reuses_its_first(reef: ReefHome, agent: str) -> None:
    first, second = (replay(reef, f"{agent}-0{number}")["usage"] for number in (1, 2))
    cached = second["input_tokens_details"]["cached_tokens"]
    assert cached > first["input_tokens"] * 0.9, (first, second)


def test_a_reply_sent_back_item_by_item_is_not_read_again(reef: ReefHome) -> None:
    """The items of a reply become the message that it was: what the model wrote is found in the cache."""
    asked: list[Any] = [{"role": "user", "content": "Count from one to twenty in words."}]
    body = {"model": reef.model, "temperature": 0, "max_output_tokens": 48}
    first = reef.request("POST", "/v1/responses", {**body, "input": asked}, who="client").json()
    again = [*asked, *first["output"], {"role": "user", "content": "Go on."}]
    second = reef.request("POST", "/v1/responses", {**body, "input": again}, who="client").json()
    read = first["usage"]["input_tokens"] + first["usage"]["output_tokens"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] >= read - 2, (first["usage"], second["usage"])


def test_a_schema_holds_the_reply(reef: ReefHome) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    }
    form = {"format": {"type": "json_schema", "name": "place", "schema": schema, "strict": True}}
    body = {"model": reef.model, "input": "Where is the Eiffel tower?", "text": form, "temperature": 0, "max_output_tokens": 64}
    reply = reef.request("POST", "/v1/responses", body, who="client").json()
    assert isinstance(json.loads(reply["output"][0]["content"][0]["text"])["city"], str)
