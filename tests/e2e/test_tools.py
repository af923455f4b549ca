"""Tool calls, forms and results through the real daemon on the embedded model; and `reef doctor --tools`, which tries them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from daemon.conformance.replies import Reply, StreamReader, read_whole
from daemon.conformance.tools import FILES, NESTED, WEATHER, choose
from tests.e2e.reef_home import MANUAL, ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ASKED = {"role": "user", "content": "What is the weather in Lisbon, in celsius?"}


@pytest.fixture(scope="module")
def reef(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReefHome]:
    with ReefHome(tmp_path_factory.mktemp("tools") / "home", MANUAL) as running:
        running.start()
        yield running


@pytest.fixture(scope="module")
def doctor(reef: ReefHome) -> dict[str, Any]:
    done = reef.cli("doctor", "--tools", "--json")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def post(reef: ReefHome, **fields: Any) -> httpx.Response:
    return reef.request("POST", "/v1/chat/completions", {"model": reef.model, "temperature": 0, "max_tokens": 200, **fields}, who="client")


def reply(answer: httpx.Response) -> Reply:
    assert answer.status_code == 200, answer.text
    found = read_stream(answer.text) if "event-stream" in answer.headers["content-type"] else read_whole(answer.json())
    assert found.problems == ()
    return found


def read_stream(text: str) -> Reply:
    reader, lines = StreamReader(), [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    for line in lines:
        if line != "[DONE]":
            reader.add(json.loads(line))
    assert not reader.error, reader.error
    return reader.end(done=lines[-1] == "[DONE]")


def test_the_doctor_finds_nothing_wrong_with_the_server(doctor: dict[str, Any]) -> None:
    wrong = {one["check"]: one["sentence"] for one in doctor["checks"] if one["verdict"] not in ("pass", "weak")}
    assert wrong == {} and doctor["ok"] is True


def test_the_doctor_is_honest_about_a_small_model(doctor: dict[str, Any]) -> None:
    fits = {one["agent"]: (one["fit"], " ".join(one["reasons"])) for one in doctor["agents"]}
    assert fits["opencode"][0] == "no" and "window" in fits["opencode"][1]
    assert all(fit != "works" for fit, _ in fits.values()), "135 million parameters are no coding agent"
    weak = {one["check"] for one in doctor["checks"] if one["verdict"] == "weak"}
    assert weak and weak <= {"edit", "auto", "choice", "parallel", "result"}, "only the model may be weak"


def test_the_doctor_leaves_no_trace(reef: ReefHome, doctor: dict[str, Any]) -> None:
    assert doctor["checks"]
    listed = reef.get("/reef/scenarios")["scenarios"]
    assert [one["name"] for one in listed] == ["default"]
    said = json.dumps(reef.get("/reef/scenarios/default/sessions")["sessions"])
    assert "capital of Portugal" not in said


def test_the_doctor_says_what_is_wrong_with_a_url(reef: ReefHome) -> None:
    for arguments, words in (
        (("--url", reef.url + "/v1"), "refuses the key"),
        (("--url", "http://127.0.0.1:9/v1", "--model", "m"), "does not answer"),
        (("--url", "nonsense"), "no http(s) URL"),
        (("--url", "http://127.0.0.1:9/v1", "--key-env", "REEF_NO_SUCH_KEY"), "is not set"),
    ):
        done = reef.cli("doctor", "--tools", *arguments)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_forced_call_its_result_and_the_answer_are_one_recorded_session(reef: ReefHome) -> None:
    first = post(reef, messages=[ASKED], tools=[WEATHER], tool_choice=choose("get_weather"))
    (call,) = reply(first).calls
    assert json.loads(call.arguments).keys() == {"city", "unit"}
    made = first.json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": call.id, "content": "21 degrees, sunny"}
    second = post(reef, messages=[ASKED, made, result], tools=[WEATHER], max_tokens=16)
    assert reply(second).text or reply(second).calls
    receipts = [answer.headers["x-reef-agent-record-id"] for answer in (first, second)]
    records = [reef.get(f"/reef/scenarios/default/records/{receipt}") for receipt in receipts]
    sessions = {json.dumps(record).split('"session": "')[1].split('"')[0] for record in records}
    assert len(sessions) == 1
    assert "get_weather" in json.dumps(records[0])


def test_streamed_and_unstreamed_calls_are_the_same(reef: ReefHome) -> None:
    for tools, choice in (([WEATHER], choose("get_weather")), ([NESTED], choose("plan_trip")), ([WEATHER, *FILES], "required")):
        fields: dict[str, Any] = {"messages": [ASKED], "tools": tools, "tool_choice": choice, "max_tokens": 400}
        whole = reply(post(reef, **fields))
        streamed = reply(post(reef, **fields, stream=True, stream_options={"include_usage": True}))
        assert whole.content == streamed.content
        assert whole.finish_reason == streamed.finish_reason


def test_a_form_that_cannot_be_held_is_refused_by_the_name_of_its_part(reef: ReefHome) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer", "not": {"const": 3}}}, "required": ["age"]}
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    answer = post(reef, messages=[ASKED], response_format=form)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert "properties.age.not" in f"{error['message']} {error['param']}"


def test_a_tool_that_is_not_there_cannot_be_chosen(reef: ReefHome) -> None:
    answer = post(reef, messages=[ASKED], tools=[WEATHER], tool_choice=choose("get_wether"))
    assert answer.status_code == 400 and "get_wether" in answer.json()["error"]["message"]
