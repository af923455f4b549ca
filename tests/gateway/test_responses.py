"""POST /v1/responses: recorded like any reply, grouped into its session, refused in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import httpx

from daemon.engine.base import Capability
from daemon.errors import EngineError
from daemon.records import JSON, JSONObject, Status, TurnKind
from tests.daemon.running import Running, running, until
from tests.engine.examples import PERSON
from tests.engine.fake import ALL, Reply, ScriptedEngine
from tests.gateway.frames import post
from tests.gateway.test_captures import CAPTURES

RESPONSES = sorted(path.stem for path in CAPTURES.glob("*.json") if json.loads(path.read_text())["path"] == "/v1/responses")
_NOT_SENT = {"host", "content-length", "connection", "authorization", "accept-encoding", "content-encoding"}
TOOL: JSONObject = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
CALL: JSONObject = {"function": {"name": "weather", "arguments": '{"city":"Paris"}'}}


async def ask(daemon: Running, given: JSON, **more: JSON) -> httpx.Response:
    return await daemon.client.post("/v1/responses", json={"model": "scripted", "input": given, **more})


async def replay(daemon: Running, name: str) -> httpx.Response:
    captured = json.loads((CAPTURES / f"{name}.json").read_text())
    headers: Mapping[str, str] = {key.lower(): value for key, value in captured["headers"] if key.lower() not in _NOT_SENT}
    return await daemon.client.post("/v1/responses", json={**captured["body"], "model": "scripted"}, headers=headers)


def last_event(response: httpx.Response) -> JSONObject:
    found = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert isinstance(found[-1], dict)
    return found[-1]


def receipt_of(response: httpx.Response) -> str:
    if "text/event-stream" not in response.headers["content-type"]:
        return response.headers["x-reef-agent-record-id"]
    reef = last_event(response)["reef"]
    assert isinstance(reef, dict)
    return str(reef["agent_record_id"])


async def test_a_reply_and_its_record(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        response = await ask(daemon, "hello", instructions="Be brief.", metadata={"a": "b"}, store=True, user="me", service_tier="auto")
        reply = response.json()
        assert response.status_code == 200, response.text
        assert reply["output"][0]["content"][0]["text"] == "echo: hello"
        assert (reply["object"], reply["status"], reply["store"], reply["metadata"]) == ("response", "completed", False, {"a": "b"})
        assert reply["usage"]["total_tokens"] == reply["usage"]["input_tokens"] + reply["usage"]["output_tokens"] > 0
        record = daemon.services.reader.inference(response.headers["x-reef-agent-record-id"])
        assert reply["reef"]["agent_record_id"] == record.id and reply["id"].removeprefix("resp_") == record.id.removeprefix("rec_")
        assert record.wire == "responses" and record.reply["content"] == "echo: hello"
        assert record.messages == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"})
        assert "input" not in record.request and "instructions" not in record.request and record.request["user"] == "me"


async def test_a_stream_ends_in_the_receipt_and_says_what_the_record_says(tmp_path: Path) -> None:
    engine = ScriptedEngine({"weather": Reply("I look.", "Hm.", (CALL,))})
    async with running(tmp_path, engine) as daemon:
        events, lines = await post(daemon, "/v1/responses", {"model": "scripted", "input": "weather?", "tools": [TOOL], "stream": True})
        assert [line[7:] for line in lines if line.startswith("event: ")] == [event["type"] for event in events]
        assert (events[0]["type"], events[1]["type"], events[-1]["type"]) == (
            "response.created",
            "response.in_progress",
            "response.completed",
        )
        reef = events[-1]["reef"]
        assert isinstance(reef, dict) and all("reef" not in event for event in events[:-1])
        record = daemon.services.reader.inference(str(reef["agent_record_id"]))
        assert record.finish_reason == "tool_calls" and record.reply["reasoning_content"] == "Hm."
        response = events[-1]["response"]
        assert isinstance(response, dict) and isinstance(response["output"], list)
        reasoning, message, call = response["output"]
        assert isinstance(reasoning, dict) and isinstance(message, dict) and isinstance(call, dict)
        calls = record.reply["tool_calls"]
        assert isinstance(calls, list) and isinstance(calls[0], dict) and calls[0]["id"] == call["call_id"]
        assert (message["id"], call["id"]) == (f"msg_{record.id[4:]}_1", f"fc_{record.id[4:]}_2")


async def test_a_tool_loop_is_one_session_whose_next_turn_goes_on_from_the_last(tmp_path: Path) -> None:
    """By what the client sends back alone, without any session header; the engine finds what it has read before."""
    engine = ScriptedEngine({"weather": Reply("", "Hm.", (CALL,))})
    async with running(tmp_path, engine) as daemon:
        first = await ask(daemon, "weather?", tools=[TOOL])
        output = first.json()["output"]
        engine.replies.clear()
        result: JSONObject = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "sunny"}
        second = await ask(daemon, [{"role": "user", "content": "weather?"}, *output, result], tools=[TOOL])
        records = [daemon.services.reader.inference(receipt_of(response)) for response in (first, second)]
        assert records[0].session == records[1].session and len(records[1].messages) == 3
        assert records[1].messages[1]["reasoning_content"] == "Hm."
        assert second.json()["usage"]["input_tokens_details"]["cached_tokens"] > 0


async def test_what_is_cut_says_so_and_what_fails_in_mid_reply_ends_as_failed(tmp_path: Path) -> None:
    engine = ScriptedEngine({"long": "a long reply that does not fit"})
    async with running(tmp_path, engine) as daemon:
        cut = (await ask(daemon, "long", max_output_tokens=5)).json()
        assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert cut["output"][0]["status"] == "incomplete" and cut["error"] is None
        events, _ = await post(daemon, "/v1/responses", {"model": "scripted", "input": "long", "stream": True, "max_output_tokens": 5})
        assert events[-1]["type"] == "response.incomplete" and "reef" in events[-1]
        engine.fail_after = (2, EngineError("The engine broke.", "Try again."))
        events, _ = await post(daemon, "/v1/responses", {"model": "scripted", "input": "long", "stream": True})
        response, reef = events[-1]["response"], events[-1]["reef"]
        assert isinstance(response, dict) and isinstance(reef, dict) and events[-1]["type"] == "response.failed"
        assert response["error"] == {"code": "server_error", "message": "The engine broke. Try again."}
        record = daemon.services.reader.inference(str(reef["agent_record_id"]))
        assert record.status is Status.ERROR and record.reply["content"] == "a long reply tha"[: len(str(record.reply["content"]))]


async def test_what_is_refused_before_a_stream_begins_is_an_error_of_http(tmp_path: Path) -> None:
    engine = ScriptedEngine(context_tokens=2048)
    async with running(tmp_path, engine) as daemon:
        long = await ask(daemon, "x" * 3000, stream=True)
        error = long.json()["error"]
        assert (
            long.status_code == 400 and error["code"] == "context_length_exceeded" and "maximum context length is 2048" in error["message"]
        )
        engine.fail_next = EngineError("The engine is starting again.", retry_after_s=4)
        away = await ask(daemon, "x", stream=True)
        assert away.status_code == 503 and away.headers["retry-after"] == "4"
        stored = await ask(daemon, "x", previous_response_id="resp_1")
        assert stored.status_code == 400 and stored.json()["error"]["param"] == "previous_response_id"
        assert "whole conversation" in stored.json()["error"]["message"]
        other = await daemon.client.post("/v1/responses", json={"model": "gpt-9", "input": "x"})
        assert other.status_code == 404 and other.json()["error"]["param"] == "model"
        assert (await daemon.bare.post("/v1/responses", json={"model": "scripted", "input": "x"})).status_code == 401
        assert (await daemon.client.get("/v1/responses")).status_code == 405


async def test_what_the_engine_cannot_do_is_named_as_this_wire_names_it(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedEngine(capabilities=ALL & ~Capability.STRUCTURE)) as daemon:
        for field, value, param in (
            ("text", {"format": {"type": "json_object"}}, "text.format"),
            ("tool_choice", "required", "tool_choice"),
        ):
            response = await ask(daemon, "x", tools=[TOOL], **{field: value})  # type: ignore[arg-type]
            assert response.status_code == 400 and response.json()["error"]["param"] == param


async def test_a_tool_that_is_not_here_cannot_be_made_to_be_called(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for choice in ({"type": "web_search"}, "required"):
            response = await ask(daemon, "x", tools=[{"type": "web_search"}], tool_choice=choice)  # type: ignore[arg-type]
            assert response.status_code == 400 and response.json()["error"]["param"] == "tool_choice"


async def test_a_schema_a_forced_call_and_log_probabilities(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        form: JSONObject = {"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}}
        assert isinstance(json.loads((await ask(daemon, "who?", text=form)).json()["output"][0]["content"][0]["text"]), dict)
        forced = (await ask(daemon, "x", tools=[TOOL], tool_choice={"type": "function", "name": "weather"})).json()
        assert [item["type"] for item in forced["output"]] == ["function_call"]
        shown = (await ask(daemon, "hi", include=["message.output_text.logprobs"], top_logprobs=2)).json()["output"][0]["content"][0]
        assert "".join(entry["token"] for entry in shown["logprobs"]) == shown["text"]
        assert all(len(entry["top_logprobs"]) == 2 for entry in shown["logprobs"])


async def test_the_scenario_can_be_in_the_path_and_the_release_in_the_model(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        body = {"model": "scripted@r1", "input": "x"}
        response = await daemon.client.post("/reef/scenarios/codex/v1/responses", json=body)
        record = daemon.services.reader.inference(receipt_of(response))
        assert record.scenario == "codex" and response.headers["x-reef-release-id"] == record.release_id == "r1"
        assert response.json()["model"] == "scripted@r1"


async def test_a_client_that_hangs_up_frees_the_engine_and_what_was_said_is_kept(tmp_path: Path) -> None:
    engine = ScriptedEngine({"slow": "word " * 400}, token_delay_s=0.01)
    async with running(tmp_path, engine) as daemon:
        body = {"model": "scripted", "input": "slow", "stream": True}
        async with daemon.client.stream("POST", "/v1/responses", json=body) as response:
            async for line in response.aiter_lines():
                if "output_text.delta" in line:
                    break
        await until(lambda: engine.cancelled == 1 and daemon.services.reader.last_receipt("default"))
        record = daemon.services.reader.inference(daemon.services.reader.last_receipt("default") or "")
        assert record.status is Status.ABORTED and str(record.reply["content"]).startswith("word ")


async def test_each_captured_request_is_answered_and_recorded(tmp_path: Path) -> None:
    assert len(RESPONSES) >= 9
    async with running(tmp_path) as daemon:
        for name in RESPONSES:
            response = await replay(daemon, name)
            assert response.status_code == 200, (name, response.text)
            record = daemon.services.reader.inference(receipt_of(response))
            assert record.wire == "responses" and record.finish_reason in ("stop", "length"), name


async def test_the_turns_of_an_agent_are_one_session(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for agent, numbers in (("codex", "12"), ("pi-responses", "12"), ("opencode-responses", "123"), ("codex-oss-lmstudio", "45")):
            records = [daemon.services.reader.inference(receipt_of(await replay(daemon, f"{agent}-0{number}"))) for number in numbers]
            assert len({record.session for record in records}) == 1, agent
            kinds = [TurnKind.TURN] * len(records)
            assert [record.kind for record in records] == ([TurnKind.ASIDE, *kinds[1:]] if len(numbers) == 3 else kinds), agent
            first, second = records[-2:]
            assert second.messages[: len(first.messages)] == first.messages and second.messages[-1]["role"] == "tool", agent
            assert second.messages[-2]["tool_calls"], (agent, "the call that the agent sends back stands before its result")


async def test_a_candidate_is_evaluated_on_this_wire_too_and_nothing_is_recorded(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        path = "/reef/scenarios/default/evaluation/head/v1/responses"
        reply = (await daemon.owner.post(path, json={"input": "x"})).json()
        assert reply["output"][0]["content"][0]["text"] == "echo: x" and "agent_record_id" not in reply["reef"]
        assert len(reply["reef"]["tokens"]["logprobs"]) == reply["usage"]["output_tokens"]
        assert (await daemon.client.post(path, json={"input": "x"})).status_code == 403
        assert daemon.services.reader.last_receipt("default") is None
