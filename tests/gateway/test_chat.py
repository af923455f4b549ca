"""A person's SDK or agent talks to the chat endpoint."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from daemon.engine.base import Event, GenerateRequest, Progress
from daemon.errors import EngineError, StorageError
from daemon.experience.jobs import Told
from daemon.records import Inference, JSONObject, Status
from tests.daemon.running import running, until
from tests.engine.fake import Reply, ScriptedEngine
from tests.gateway.frames import stream


async def test_reply_carries_text_usage_and_a_receipt_that_is_on_disk(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        response = await daemon.chat("hello")
        assert response.status_code == 200, response.text
        body = response.json()
        assert body["choices"][0]["message"] == {"role": "assistant", "content": "echo: hello", "refusal": None}
        assert body["choices"][0]["finish_reason"] == "stop"
        assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]
        assert body["system_fingerprint"] == response.headers["x-reef-release-id"] == "r1"
        receipt = response.headers["x-reef-agent-record-id"]
        assert body["id"] == f"chatcmpl-{receipt.removeprefix('rec_')}"
        record = daemon.services.reader.inference(receipt)
        assert record.reply["content"] == "echo: hello"
        assert record.messages == ({"role": "user", "content": "hello"},)
        assert record.tokens is not None and len(record.tokens.completion) == record.usage.completion_tokens


async def test_stream_has_one_id_a_finish_reason_usage_and_the_receipt_before_done(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        frames, lines = await stream(daemon, "tell me a longer story", stream_options={"include_usage": True})
        assert len({frame["id"] for frame in frames}) == 1
        deltas = [frame["choices"][0] for frame in frames if frame["choices"]]
        assert deltas[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(delta["delta"].get("content", "") for delta in deltas) == "echo: tell me a longer story"
        assert [delta["finish_reason"] for delta in deltas][-1] == "stop"
        assert frames[-1]["choices"] == [] and frames[-1]["usage"]["completion_tokens"] > 0
        receipt = frames[-1]["reef"]["agent_record_id"]
        assert lines[-2:] == ["data: [DONE]", ""]
        assert daemon.services.reader.inference(receipt).status is Status.OK


async def test_a_stream_without_usage_has_a_choice_in_every_chunk(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:  # small programs read `chunk.choices[0]` unasked
        frames, _ = await stream(daemon, "tell me a longer story")
        assert all(len(frame["choices"]) == 1 for frame in frames)
        assert frames[-1]["choices"][0]["finish_reason"] == "stop"
        assert daemon.services.reader.inference(frames[-1]["reef"]["agent_record_id"]).status is Status.OK


async def test_tool_calls_stream_with_index_id_type_and_name_first(tmp_path: Path) -> None:
    call: JSONObject = {"function": {"name": "bash", "arguments": '{"command":"ls"}'}}
    engine = ScriptedEngine({"list": Reply(tool_calls=(call,))})
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}, {"type": "web_search"}]
    async with running(tmp_path, engine) as daemon:
        frames, _ = await stream(daemon, "list files", tools=tools)
        [delta] = [f["choices"][0]["delta"]["tool_calls"][0] for f in frames if f["choices"] and "tool_calls" in f["choices"][0]["delta"]]
        assert delta["index"] == 0 and delta["type"] == "function" and delta["id"].startswith("call_")
        assert delta["function"] == {"name": "bash", "arguments": '{"command":"ls"}'}
        assert [f["choices"][0]["finish_reason"] for f in frames if f["choices"]][-1] == "tool_calls"
        assert len(engine.requests[0].tools) == 1  # the one that is no function was skipped
        whole = (await daemon.chat("list files", tools=tools)).json()["choices"][0]
        assert whole["message"]["content"] is None and whole["message"]["tool_calls"][0]["function"]["name"] == "bash"


async def test_hanging_up_frees_the_engine_and_keeps_what_was_generated(tmp_path: Path) -> None:
    engine = ScriptedEngine({"long": "word " * 400}, token_delay_s=0.02)
    async with running(tmp_path, engine) as daemon:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "long"}], "stream": True}
        async with daemon.client.stream("POST", "/v1/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if "word" in line:
                    break
        await until(lambda: engine.cancelled == 1 and not engine.running)
        await until(lambda: daemon.services.reader.last_receipt("default"))
        record = daemon.services.reader.inference(str(daemon.services.reader.last_receipt("default")))
        assert record.status is Status.ABORTED and str(record.reply["content"]).startswith("word ")
        await until(lambda: daemon.services.serving.activity.in_flight == 0)


async def test_hanging_up_on_a_whole_reply_frees_the_engine(tmp_path: Path) -> None:
    engine = ScriptedEngine({"long": "word " * 400}, token_delay_s=0.02)
    async with running(tmp_path, engine) as daemon:
        task = asyncio.create_task(daemon.chat("long"))
        await until(lambda: engine.running)
        task.cancel()
        await until(lambda: engine.cancelled == 1 and not engine.running)


async def test_an_overflow_says_how_many_tokens_fit(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedEngine(context_tokens=64)) as daemon:
        for streaming in (False, True):
            response = await daemon.chat("x" * 500, stream=streaming)
            error = response.json()["error"]
            assert response.status_code == 400 and error["code"] == "context_length_exceeded"
            assert "maximum context length is 64 tokens" in error["message"] and "rate limit" not in error["message"]
        assert daemon.services.reader.last_receipt("default") is None


async def test_an_engine_that_breaks_in_a_stream_ends_it_with_an_error_event(tmp_path: Path) -> None:
    engine = ScriptedEngine({"go": "abcdefgh" * 5})
    async with running(tmp_path, engine) as daemon:
        engine.fail_after = (2, EngineError("The engine crashed."))
        frames, lines = await stream(daemon, "go")
        assert frames[-1]["error"]["message"] == "The engine crashed." and lines[-2] == "data: [DONE]"
        record = daemon.services.reader.inference(str(frames[-1]["reef"]["agent_record_id"]))
        assert record.status is Status.ERROR and record.reply["content"] == "abcdefgh" * 2
        engine.fail_next = EngineError("The engine is restarting.")
        assert (await daemon.chat("go")).status_code == 503
        assert (await daemon.chat("go")).status_code == 200


async def test_bad_fields_are_named(tmp_path: Path) -> None:
    cases: list[tuple[str, object]] = [
        ("temperature", "hot"),
        ("temperature", 9),
        ("top_p", True),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("n", 0),
        ("stop", [1]),
        ("stream", "yes"),
        ("tools", {}),
        ("tools[0].function.name", None),
        ("response_format", {"type": "xml"}),
        ("seed", "one"),
    ]
    async with running(tmp_path) as daemon:
        for field, value in cases:
            given = {"tools": [{"type": "function"}]} if field.startswith("tools[") else {field: value}
            response = await daemon.chat("x", **given)
            assert response.status_code == 400, field
            assert response.json()["error"]["param"] == field, response.text
        for messages in ([], None, "hello", [{"role": "wizard", "content": "x"}], [{"role": "user", "content": 7}], ["hi"]):
            response = await daemon.client.post("/v1/chat/completions", json={"model": "scripted", "messages": messages})
            assert response.status_code == 400, messages
            assert response.json()["error"]["param"].startswith("messages"), response.text
        response = await daemon.chat("x", temperature=None, unknown_field={"a": 1}, store=True, reasoning_effort="high")
        assert response.status_code == 200


async def test_an_unknown_model_is_a_404_that_names_the_served_one(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        response = await daemon.chat("x", model="gpt-9")
        assert response.status_code == 404 and "scripted" in response.json()["error"]["message"]
        assert (await daemon.chat("x", model="scripted@r1")).status_code == 200
        assert (await daemon.chat("x", model="scripted@r99")).status_code == 404
        listed = [entry["id"] for entry in (await daemon.client.get("/v1/models")).json()["data"]]
        assert listed == ["scripted", "scripted@r1"]
        shown = (await daemon.client.get("/v1/models/scripted@r1")).json()
        assert shown["context_window"] == daemon.services.engine.model.context_tokens


async def test_a_conversation_is_one_session_and_a_path_can_name_the_scenario(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        first = await daemon.chat("one")
        messages = [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "echo: one"},
            {"role": "user", "content": [{"type": "text", "text": "two"}]},
        ]
        second = await daemon.client.post("/v1/chat/completions", json={"model": "scripted", "messages": messages})
        a, b = (daemon.services.reader.inference(r.headers["x-reef-agent-record-id"]) for r in (first, second))
        assert a.session == b.session
        path, body = "/reef/scenarios/editor/v1/chat/completions", {"model": "scripted", "messages": messages[:1]}
        other = await daemon.client.post(path, json=body, headers={"x-reef-tag-client": "zed"})
        record = daemon.services.reader.inference(other.headers["x-reef-agent-record-id"])
        assert record.scenario == "editor" and record.tags == {"client": "zed"} and record.session != a.session


async def test_a_scenario_that_cannot_start_where_it_should_does_not_come_into_being(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}
        bound = {"x-reef-scenario": "fresh", "x-reef-release-id": "r9"}
        assert (await daemon.client.post("/v1/chat/completions", json=body, headers=bound)).status_code == 409
        assert daemon.services.repository.scenarios() == ["default"]
        for release, status in (("r1", 200), ("r2", 409)):
            response = await daemon.client.post("/v1/chat/completions", json=body, headers={"x-reef-release-id": release})
            assert response.status_code == status


async def test_a_scenario_name_that_is_none_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}
        response = await daemon.client.post("/v1/chat/completions", json=body, headers={"x-reef-scenario": "../etc"})
        assert response.status_code == 400 and daemon.services.repository.scenarios() == ["default"]


async def test_a_slow_prompt_keeps_the_connection_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.gateway.answering.KEEP_ALIVE_S", 0.05)
    engine = ScriptedEngine({"slow": "done now"}, token_delay_s=0.2)
    async with running(tmp_path, engine) as daemon:
        frames, lines = await stream(daemon, "slow")
        assert ": keep-alive" in lines
        assert "".join(f["choices"][0]["delta"].get("content", "") for f in frames if f["choices"]) == "done now"


async def test_a_prompt_that_is_being_read_keeps_the_connection_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine tells its progress oftener than a sign of life is due; the client must not be left in silence for that."""

    class Slow(ScriptedEngine):
        async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
            for done in range(20):
                yield Progress(done, 20)
                await asyncio.sleep(0.02)
            async with contextlib.aclosing(super().generate(request)) as events:
                async for event in events:
                    yield event

    monkeypatch.setattr("daemon.gateway.answering.KEEP_ALIVE_S", 0.05)
    async with running(tmp_path, Slow({"slow": "done"})) as daemon:
        frames, lines = await stream(daemon, "slow")
        assert lines.count(": keep-alive") >= 3
        assert "".join(f["choices"][0]["delta"].get("content", "") for f in frames if f["choices"]) == "done"


async def test_a_daemon_that_stops_ends_its_streams_with_an_error_and_keeps_what_was_generated(tmp_path: Path) -> None:
    engine = ScriptedEngine({"long": "word " * 400}, token_delay_s=0.02)
    async with running(tmp_path, engine) as daemon:
        following = asyncio.create_task(stream(daemon, "long"))
        await until(lambda: engine.running)
        await asyncio.sleep(0.1)
        await daemon.gateway.stop()
        frames, lines = await following
        assert "aborted" in str(frames[-1]["error"]) and lines[-2] == "data: [DONE]"
        reef = frames[-1]["reef"]
        assert isinstance(reef, dict)
        assert daemon.services.reader.inference(str(reef["agent_record_id"])).status is Status.ABORTED


async def test_a_disk_that_is_full_gives_no_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as daemon:

        def full(_: Inference, told: Told[int]) -> None:
            told.set_exception(StorageError("The disk is full.", "Free some space."))

        with monkeypatch.context() as patched:
            patched.setattr(daemon.services.store, "append_new", full)
            response = await daemon.chat("x")
            assert response.status_code == 507 and "x-reef-agent-record-id" not in response.headers
            frames, _ = await stream(daemon, "x")
            assert "disk is full" in str(frames[-1]["error"]) and not any("reef" in frame for frame in frames)
        assert (await daemon.chat("x")).status_code == 200


async def test_a_bug_while_recording_ends_the_request_and_gives_its_place_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as daemon:

        def broken(_: Inference, told: Told[int]) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(daemon.services.store, "append_new", broken)
        response = await daemon.chat("x")
        assert response.status_code == 503 and "log" in response.text and "x-reef-agent-record-id" not in response.headers
        frames, lines = await stream(daemon, "x")
        assert "log" in str(frames[-1]["error"]) and lines[-2] == "data: [DONE]"
        assert daemon.services.serving.activity.in_flight == 0
