"""What the owner and a supervisor read off a running daemon."""

from __future__ import annotations

from pathlib import Path

from daemon.engine.base import CacheStats
from tests.daemon.running import running
from tests.engine.fake import ScriptedEngine


async def test_status_says_what_serves_and_what_it_costs(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await daemon.chat("x")
        status = (await daemon.client.get("/reef/status")).json()
        assert status["engine"]["state"] == "ready" and "lora" in status["engine"]["capabilities"]
        [scenario] = status["scenarios"]
        assert (scenario["name"], scenario["release_id"], scenario["records"], scenario["held"]) == ("default", "r1", 1, [])
        assert status["base_url"] == daemon.url and status["disk"]["used_bytes"] > 0 and status["warnings"] == []
        token = daemon.client.headers["authorization"].removeprefix("Bearer ")
        assert token not in str(status)


async def test_status_and_metrics_say_what_the_prefix_cache_saves_and_why_it_did_not(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    async with running(tmp_path, engine) as daemon:
        assert (await daemon.client.get("/reef/status")).json()["engine"]["cache"]["reused_share"] is None
        engine.cache = CacheStats(250, 750, 4096, 1 << 20, {"evicted": 2, "LoRA changed": 0})
        cache = (await daemon.client.get("/reef/status")).json()["engine"]["cache"]
        assert cache == {
            "read_tokens": 250,
            "reused_tokens": 750,
            "reused_share": 0.75,
            "held_bytes": 4096,
            "limit_bytes": 1 << 20,
            "misses": {"evicted": 2},
        }
        metrics = (await daemon.client.get("/metrics")).text
        assert "reef_prompt_tokens_reused_total 750\n" in metrics
        assert 'reef_prefix_cache_misses_total{reason="evicted"} 2\n' in metrics
        assert 'reef_prefix_cache_misses_total{reason="template changed"} 0\n' in metrics


async def test_status_warns_where_more_is_kept_than_the_settings_allow(tmp_path: Path) -> None:
    async with running(tmp_path, settings={"storage.retention_bytes": 1000}) as daemon:
        [warning] = (await daemon.client.get("/reef/status")).json()["warnings"]
        assert "storage.retention_bytes (1kB)" in warning


async def test_status_warns_where_the_settings_ask_for_more_window_than_the_model_has(tmp_path: Path) -> None:
    engine = ScriptedEngine(context_tokens=8192)
    async with running(tmp_path / "more", engine, {"engine.context": 32768}) as daemon:
        [warning] = (await daemon.client.get("/reef/status")).json()["warnings"]
        assert warning == "engine.context is 32,768, but scripted holds 8,192 tokens and no more."
    async with running(tmp_path / "as it is", ScriptedEngine(context_tokens=8192), {"engine.context": 8192}) as daemon:
        assert (await daemon.client.get("/reef/status")).json()["warnings"] == []


async def test_metrics_are_prometheus_text(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await daemon.chat("x")
        response = await daemon.client.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain")
        assert 'reef_records_total{scenario="default"} 1\n' in response.text and "reef_engine_ready 1\n" in response.text


async def test_what_agents_probe_at_start_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for method, path in (("GET", "/health"), ("HEAD", "/api/hello"), ("GET", "/api/version"), ("GET", "/api/tags")):
            assert (await daemon.client.request(method, path)).status_code == 200, path
        shown = (await daemon.client.post("/api/show", json={"model": "scripted"})).json()
        assert shown["model_info"]["scripted.context_length"] == daemon.services.engine.model.context_tokens
        await daemon.services.engine.stop()
        assert (await daemon.client.get("/health")).status_code == 503
