"""reef-client, as it is published, against this daemon: nothing of it is changed or replaced."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

import pytest
from reef_client import ReefClient, fetch_skill, sync_skill
from reef_client.client import ReefClientError
from reef_client.serve import CaptureStore, ServeConfig, build_handler
from reef_client.skill import SkillNotServedError
from reef_client.sse import SSEAccumulator

from daemon.harness_tree import HarnessTree
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from tests.daemon.running import Running, running, until

T = TypeVar("T")
BODY = {"model": "scripted", "messages": [{"role": "user", "content": "hello there"}]}


def client_of(daemon: Running) -> ReefClient:
    return ReefClient(daemon.url, token=token_of(daemon))


def token_of(daemon: Running) -> str:
    return daemon.client.headers["authorization"].removeprefix("Bearer ")


async def in_thread(function: Callable[..., T], *arguments: object, **named: object) -> T:
    return await asyncio.to_thread(function, *arguments, **named)


async def test_it_infers_reports_and_retries(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        client = client_of(daemon)
        body, receipt = await in_thread(
            client.inference_with_record, "agents", "/v1/chat/completions", BODY, recipe="any", artifact_version="any"
        )
        assert body["choices"][0]["message"]["content"] == "echo: hello there"
        report = {"score": 1.0, "feedback": "good", "agent_record_id": "graded-1"}
        for _ in range(2):
            stored = await in_thread(client.report, "agents", report, references=[receipt])
            assert stored == {"agent_record_id": "graded-1", "scenario": "agents", "request_type": "report"}
        with pytest.raises(ReefClientError) as refused:
            await in_thread(client.report, "agents", {**report, "score": 0.0}, references=[receipt])
        assert refused.value.status == 409 and refused.value.content_type == "application/json"
        assert [found.score for found in daemon.services.reader.reports_for(receipt)] == [1.0]
        with pytest.raises(ReefClientError) as missing:
            await in_thread(client.get, "/reef/scenarios/nowhere/contract")
        assert missing.value.status == 404


async def test_it_lists_and_pulls_the_harness_by_version(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as daemon:
        client = client_of(daemon)
        await in_thread(client.inference, "agents", "/v1/chat/completions", BODY)
        [version] = await in_thread(client.harness_versions, "agents")
        pulled = await in_thread(client.harness_pull, "agents", tmp_path / "head")
        named = await in_thread(client.harness_pull, "agents", tmp_path / "named", version=version["version"])
        by_release = await in_thread(client.harness_pull, "agents", tmp_path / "release", version=version["release_id"])
        assert pulled == named == by_release == version["artifact_version"]
        reply = await daemon.client.post("/v1/chat/completions", json=BODY, headers={"x-reef-scenario": "agents"})
        assert reply.headers["x-reef-artifact-version"] == pulled
        with pytest.raises(ReefClientError) as unknown:
            await in_thread(client.harness_pull, "agents", tmp_path / "none", version="nothing")
        assert unknown.value.status == 404
        with pytest.raises(SkillNotServedError):
            await in_thread(fetch_skill, daemon.url, "agents", token_of(daemon))


async def test_it_fetches_a_skill_and_an_older_pull_takes_the_newer_files_away(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as daemon:
        client, target = client_of(daemon), tmp_path / "tree"
        await in_thread(client.inference, "agents", "/v1/chat/completions", BODY)
        repository = daemon.services.repository
        first = repository.head("agents")
        assert first is not None
        tree = HarnessTree({"skills/SKILL.md": "Look first.\n", "AGENTS.md": "- Be brief.\n"})
        draft = Draft(scenario="agents", operation=Operation.TRAINING, base=first.manifest.base, harness=tree, who="test")
        second = repository.publish(draft, expected_head=first.id)
        text, version = await in_thread(fetch_skill, daemon.url, "agents", token_of(daemon))
        assert (text, version) == ("Look first.\n", second.content_id)
        out = tmp_path / "SKILL.md"
        assert await in_thread(sync_skill, daemon.url, "agents", out, token_of(daemon)) == (version, True)
        assert await in_thread(sync_skill, daemon.url, "agents", out, token_of(daemon)) == (version, False)
        older, newer = await in_thread(client.harness_versions, "agents")
        assert newer["version"] == version and newer["operation"] == "training"
        assert await in_thread(client.harness_pull, "agents", target) == version
        assert (target / "skills" / "SKILL.md").read_text() == text
        assert await in_thread(client.harness_pull, "agents", target, version=older["version"]) == older["version"]
        assert not (target / "skills" / "SKILL.md").exists()


async def test_a_stream_gives_its_accumulator_the_reply_and_the_receipt(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        accumulator = SSEAccumulator()
        async with daemon.client.stream("POST", "/v1/chat/completions", json={**BODY, "stream": True}) as response:
            async for data in response.aiter_bytes(7):
                accumulator.feed(data)
        accumulator.finish()
        assert accumulator.done and accumulator.completion is not None
        assert accumulator.completion["choices"][0]["message"]["content"] == "echo: hello there"
        assert accumulator.agent_record_id is not None
        assert daemon.services.reader.inference(accumulator.agent_record_id).reply["content"] == "echo: hello there"


@pytest.mark.parametrize("whole", [False, True], ids=["passed on", "asked for whole"])
async def test_its_sidecar_in_front_captures_turns_with_receipts_and_stamps_sessions(tmp_path: Path, whole: bool) -> None:
    async with running(tmp_path) as daemon:
        captured = CaptureStore()
        config = ServeConfig(
            daemon.url,
            session_header="x-reef-session",
            override_headers={"authorization": f"Bearer {token_of(daemon)}", "host": f"127.0.0.1:{daemon.port}"},
            force_non_stream=whole,
        )
        for address in served(config, captured):
            await in_thread(post, f"{address}/_sessions", {"id": "episode-1"})
            for stream in (False, True):
                text = await in_thread(post, f"{address}/s/episode-1/v1/chat/completions", {**BODY, "stream": stream})
                assert ("data: [DONE]" in text) == stream
        await until(lambda: len(captured) == 2)
        for turn in captured.snapshot("episode-1"):
            assert turn["response"]["choices"][0]["message"]["content"] == "echo: hello there"
            assert daemon.services.reader.inference(turn["receipt"]).session == "episode-1"


def served(config: ServeConfig, captured: CaptureStore) -> Iterator[str]:
    """The sidecar's address, while it serves."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), build_handler(config, captured))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def post(url: str, body: object) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as response:
        return str(response.read().decode())


async def test_an_upload_that_is_killed_goes_on_where_it_was_and_stores_everything_once(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as daemon:
        lines = []
        for number in range(300):
            messages = [{"role": "user", "content": f"question {number}"}]
            answer = {"choices": [{"message": {"role": "assistant", "content": f"answer {number}"}}]}
            lines.append(
                {"agent_record_id": f"s-{number}", "request_type": "inference", "payload": {"messages": messages, "response": answer}}
            )
            lines.append(
                {"agent_record_id": f"r-{number}", "request_type": "report", "payload": {"references": [f"s-{number}"], "score": 1}}
            )
        source = tmp_path / "records.jsonl"
        source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [sys.executable, "-P", "-m", "reef_client", "import", str(source), "--url", daemon.url, "--scenario", "old"]
        environment = {"PATH": os.environ["PATH"], "REEF_TOKEN": token_of(daemon)}
        piped = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, "--batch-size", "4", env=environment, stdout=piped, stderr=piped)
        assert process.stderr is not None
        await process.stderr.readline()  # the first acknowledged batch
        process.kill()
        await process.communicate()
        begun = daemon.services.reader.counts("old")
        assert 2 <= begun.inferences < 300
        again = [*command, "--max-batch-bytes", "10000000", "--batch-size", "1000"]
        done = await asyncio.to_thread(subprocess.run, again, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "600 records acknowledged" in done.stdout, done.stderr
        counts = daemon.services.reader.counts("old")
        assert (counts.inferences, counts.reports, counts.imported) == (300, 300, 0)
