"""An editor completes, fills in, and embeds."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
from pathlib import Path

import pytest

from daemon.engine.base import Capability
from daemon.records import Inference, JSONObject, Status, TurnKind
from tests.daemon.running import Running, running, until
from tests.engine.fake import ALL, WIDTH, ScriptedEngine
from tests.gateway.frames import choices_of, post, texts_of

PATH = "/v1/completions"


def asking(prompt: object, **more: object) -> dict[str, object]:
    return {"model": "scripted", "prompt": prompt, "max_tokens": 200, **more}


def records_of(daemon: Running, scenario: str = "default") -> list[Inference]:
    return [item for item in daemon.services.reader.items(scenario, kind="inference") if isinstance(item, Inference)]


async def test_a_text_is_gone_on_with_and_recorded_as_no_turn(tmp_path: Path) -> None:
    engine = ScriptedEngine({"def add": "    return a + b"})
    async with running(tmp_path, engine) as daemon:
        response = await daemon.client.post(PATH, json=asking("def add(a, b):\n", temperature=0))
        body = response.json()
        assert response.status_code == 200, response.text
        assert body["object"] == "text_completion"
        assert body["choices"] == [{"text": "    return a + b", "index": 0, "logprobs": None, "finish_reason": "stop"}]
        assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]
        receipt = response.headers["x-reef-agent-record-id"]
        assert body["id"] == f"cmpl-{receipt.removeprefix('rec_')}" and body["reef"]["agent_record_id"] == receipt
        record = daemon.services.reader.inference(receipt)
        assert (record.wire, record.kind, record.reply["content"]) == ("completions", TurnKind.ASIDE, "    return a + b")
        assert record.messages == ({"role": "user", "content": "def add(a, b):\n"},) and "prompt" not in record.request
        asked = engine.requests[0]
        assert (asked.text, asked.messages, asked.suffix, asked.session) == ("def add(a, b):\n", (), None, "")


async def test_a_stream_ends_with_usage_and_the_receipt(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        frames, lines = await post(daemon, PATH, asking("once upon a time", stream=True, stream_options={"include_usage": True}))
        assert texts_of(frames) == {0: "echo: once upon a time"} and len({frame["id"] for frame in frames}) == 1
        assert {frame["object"] for frame in frames} == {"text_completion"}
        assert [choice["finish_reason"] for choice in choices_of(frames)][-1] == "stop"
        usage, reef = frames[-1]["usage"], frames[-1]["reef"]
        assert isinstance(usage, dict) and usage["completion_tokens"] and isinstance(reef, dict)
        assert daemon.services.reader.inference(str(reef["agent_record_id"])).status is Status.OK and lines[-2] == "data: [DONE]"


async def test_several_prompts_and_choices_come_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        body = (await daemon.client.post(PATH, json=asking(["a", "b"], n=2))).json()
        assert [choice["text"] for choice in body["choices"]] == ["echo: a", "echo: a", "echo: b", "echo: b"]
        assert len(set(body["reef"]["agent_record_ids"])) == 4 and body["usage"]["prompt_tokens"] == 2
        echoed = (await daemon.client.post(PATH, json=asking(["a", "b"], echo=True))).json()
        assert [choice["text"] for choice in echoed["choices"]] == ["aecho: a", "becho: b"]
        frames, _ = await post(daemon, PATH, asking(["a", "b"], echo=True, stream=True))
        assert texts_of(frames) == {0: "aecho: a", 1: "becho: b"}


async def test_a_gap_is_filled_where_the_model_can(tmp_path: Path) -> None:
    engine = ScriptedEngine({"def f": "x = 1"})
    async with running(tmp_path / "can", engine) as daemon:
        response = await daemon.client.post(PATH, json=asking("def f():\n", suffix="\n    return x"))
        assert response.json()["choices"][0]["text"] == "x = 1" and engine.requests[0].suffix == "\n    return x"
        assert records_of(daemon)[0].request["suffix"] == "\n    return x"
    async with running(tmp_path / "cannot", ScriptedEngine(capabilities=ALL & ~Capability.FILL_IN_MIDDLE)) as daemon:
        response = await daemon.client.post(PATH, json=asking("def f():\n", suffix="\n    return x"))
        assert response.status_code == 400 and response.json()["error"]["param"] == "suffix"
        assert (await daemon.client.post(PATH, json=asking("x", suffix=""))).status_code == 200, "at the end of a file"


async def test_log_probabilities_come_as_parallel_arrays_that_cover_the_text(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        choice = (await daemon.client.post(PATH, json=asking("hi", logprobs=1))).json()["choices"][0]
        found = choice["logprobs"]
        assert "".join(found["tokens"]) == choice["text"]
        assert found["text_offset"] == list(range(len(choice["text"]))) and len(found["token_logprobs"]) == len(found["tokens"])
        assert all(len(each) == 1 for each in found["top_logprobs"])
        frames, _ = await post(daemon, PATH, asking("hi", logprobs=1, stream=True))
        streamed = [part["logprobs"] for part in choices_of(frames) if part["logprobs"]]
        assert [offset for part in streamed for offset in part["text_offset"]] == found["text_offset"]  # type: ignore[index, call-overload]


async def test_what_is_asked_wrongly_is_named(tmp_path: Path) -> None:
    cases: list[tuple[str, object]] = [
        ("prompt", None),
        ("prompt", []),
        ("prompt", [1, 2]),
        ("prompt", [[1, 2]]),
        ("prompt", ["a", {}]),
        ("prompt", ["a"] * 17),
        ("prompt", {"a": 1}),
        ("n", 9),
        ("best_of", 2),
        ("logprobs", True),
        ("logprobs", 21),
        ("max_tokens", 0),
        ("suffix", 7),
        ("echo", "yes"),
        ("logit_bias", {"x": 1}),
        ("stop", [1]),
        ("model", None),
    ]
    async with running(tmp_path) as daemon:
        for field, value in cases:
            response = await daemon.client.post(PATH, json={**asking("x"), field: value})
            assert response.status_code == 400 and response.json()["error"]["param"] == field, (field, value, response.text)
        assert (await daemon.client.post(PATH, json=asking("x", echo=True, logprobs=1))).json()["error"]["param"] == "logprobs"
        assert (await daemon.client.post(PATH, json=asking(["a"] * 9, n=2))).json()["error"]["param"] == "n"
        assert (await daemon.client.post(PATH, json={**asking("x"), "model": "gpt-9"})).status_code == 404
        assert records_of(daemon) == []
        short = await daemon.client.post(PATH, json={"model": "scripted", "prompt": "a longer text"})
        assert short.json()["usage"]["completion_tokens"] == 16, "the wire's default"


async def test_an_hours_completions_are_one_session_and_a_named_one_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for text in ("a", "b"):
            await daemon.client.post(f"/reef/scenarios/editor{PATH}", json=asking(text))
        await daemon.client.post(f"/reef/scenarios/editor{PATH}", json=asking("c"), headers={"x-reef-session": "mine"})
        records = records_of(daemon, "editor")
        assert records[0].session == records[1].session and records[0].session.startswith("completions-") and records[2].session == "mine"
        listed = (await daemon.client.get("/reef/scenarios/editor/sessions")).json()["sessions"]
        assert [(one["turns"], one["asides"]) for one in listed] == [(0, 1), (0, 2)]


async def test_hanging_up_frees_the_engine(tmp_path: Path) -> None:
    engine = ScriptedEngine({"long": "word " * 400}, token_delay_s=0.02)
    async with running(tmp_path, engine) as daemon:
        for streaming in (True, False):
            task = asyncio.create_task(daemon.client.post(PATH, json=asking(["long", "longer"], max_tokens=2000, stream=streaming)))
            await until(lambda: engine.running == 2)
            task.cancel()
            await until(lambda: engine.running == 0 and daemon.services.serving.activity.in_flight == 0)


@pytest.mark.parametrize("form", ["float", "base64"])
async def test_texts_become_vectors(tmp_path: Path, form: str) -> None:
    async with running(tmp_path) as daemon:
        body: JSONObject = {"model": "scripted", "input": ["sky", "stone", "sky"], "encoding_format": form}
        found = (await daemon.client.post("/v1/embeddings", json=body)).json()
        vectors = [
            struct.unpack(f"<{WIDTH}f", base64.b64decode(entry["embedding"])) if form == "base64" else entry["embedding"]
            for entry in found["data"]
        ]
        assert [entry["index"] for entry in found["data"]] == [0, 1, 2] and vectors[0] == vectors[2] != vectors[1]
        assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-5) for vector in vectors)
        assert found["usage"] == {"prompt_tokens": 11, "total_tokens": 11} and found["object"] == "list"
        shorter = (await daemon.client.post("/v1/embeddings", json={"model": "scripted", "input": "sky", "dimensions": 3})).json()
        [entry] = shorter["data"]
        assert len(entry["embedding"]) == 3 and math.isclose(math.hypot(*entry["embedding"]), 1, abs_tol=1e-9)
        assert records_of(daemon) == [] and daemon.services.serving.activity.in_flight == 0


async def test_embeddings_that_cannot_be_made_are_refused_by_name(tmp_path: Path) -> None:
    cases: list[tuple[str, object]] = [
        ("input", None),
        ("input", ""),
        ("input", []),
        ("input", ["a", ""]),
        ("input", [1, 2]),
        ("input", [[1, 2], [3]]),
        ("input", ["a"] * 2049),
        ("encoding_format", "int8"),
        ("dimensions", 0),
        ("dimensions", WIDTH + 1),
        ("model", ""),
    ]
    async with running(tmp_path / "can") as daemon:
        for field, value in cases:
            response = await daemon.client.post("/v1/embeddings", json={"model": "scripted", "input": "x", field: value})
            assert response.status_code == 400, (field, response.text)
            assert response.json()["error"]["param"].partition("[")[0] == field
    async with running(tmp_path / "small", ScriptedEngine(context_tokens=64)) as daemon:
        for path, field in (("/v1/embeddings", "input"), (PATH, "prompt")):
            huge = (await daemon.client.post(path, json={"model": "scripted", field: "x" * 100_000})).json()["error"]
            assert huge["code"] == "context_length_exceeded" and "maximum context length is 64 tokens" in huge["message"]
    async with running(tmp_path / "cannot", ScriptedEngine(capabilities=Capability.NONE)) as daemon:
        response = await daemon.client.post("/v1/embeddings", json={"model": "scripted", "input": "x"})
        assert response.status_code == 400 and "cannot make embeddings" in response.json()["error"]["message"]


async def test_models_say_what_can_be_asked_of_them(tmp_path: Path) -> None:
    async with running(tmp_path / "all") as daemon:
        [entry, _] = (await daemon.client.get("/v1/models")).json()["data"]
        assert {"chat", "tools", "structure", "fill_in_middle", "embeddings", "logprobs"} <= set(entry["capabilities"])
        assert {"insert", "embedding"} <= set((await daemon.client.post("/api/show", json={})).json()["capabilities"])
    async with running(tmp_path / "none", ScriptedEngine(capabilities=Capability.NONE)) as daemon:
        [entry, _] = (await daemon.client.get("/v1/models")).json()["data"]
        assert entry["capabilities"] == ["chat", "completions", "tools"]
