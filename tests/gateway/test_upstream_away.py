"""The daemon stands between agents and another server, which may be away when it starts, or go away later."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.config import UpstreamConfig
from daemon.engine.upstream.engine import UpstreamEngine
from tests.daemon.running import running, until
from tests.engine.upstream_server import UpstreamServer


async def test_it_starts_without_its_upstream_and_answers_once_that_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.engine.upstream.engine._FIRST_PAUSE_S", 0.02)
    async with UpstreamServer() as server:
        port = int(server.url.split(":")[2].split("/")[0])
    engine = UpstreamEngine(UpstreamConfig(kind="upstream", url=server.url, model="scripted"))
    async with running(tmp_path, engine) as daemon:
        status = (await daemon.client.get("/reef/status")).json()["engine"]
        assert status["state"] == "restarting" and "cannot be reached" in status["detail"]
        assert (await daemon.client.get("/health")).status_code == 503
        refused = await daemon.chat("hello there")
        assert refused.status_code == 503 and refused.headers["retry-after"] and "cannot be reached" in refused.json()["error"]["message"]
        async with UpstreamServer(port) as server:
            await until(lambda: engine.stats.state == "ready")
            assert (await daemon.client.get("/v1/models/scripted")).json()["context_window"] == 2048
            assert (await daemon.chat("hello there", n=2)).json()["choices"][1]["message"]["content"] == "hello there "
            completed = await daemon.client.post("/v1/completions", json={"model": "scripted", "prompt": "a b", "suffix": "c"})
            assert completed.json()["choices"][0]["text"] == "a b " and server.bodies[-1]["suffix"] == "c"
            vectors = await daemon.client.post("/v1/embeddings", json={"model": "scripted", "input": "a"})
            assert len(vectors.json()["data"]) == 1
        assert daemon.services.reader.counts("default").inferences == 3
