"""What a web page, another user's program or a broken client can try against the port."""

from __future__ import annotations

import asyncio
import gzip
import os
from pathlib import Path

import pytest

from daemon.errors import ConfigError
from daemon.gateway.body import _Held
from daemon.paths import Home
from daemon.tokens import Role, Tokens
from tests.daemon.running import running, until

BODY = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}


async def test_only_healthz_answers_without_a_token(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        assert (await daemon.bare.get("/healthz")).json()["status"] == "ok"
        for path in ("/v1/models", "/health", "/api/hello", "/reef/status", "/nothing"):
            assert (await daemon.bare.get(path)).status_code == 401, path
        assert (await daemon.bare.get("/healthz%3F/v1/models")).status_code == 401
        wrong = await daemon.bare.get("/v1/models", headers={"authorization": "Bearer wrong"})
        assert wrong.status_code == 401 and wrong.json()["error"]["code"] == "invalid_api_key"
        token = daemon.client.headers["authorization"].removeprefix("Bearer ")
        assert (await daemon.bare.get("/v1/models", headers={"x-api-key": token})).status_code == 200
        assert (await daemon.bare.get(f"/v1/models?token={token}")).status_code == 401


async def test_a_foreign_host_or_origin_is_refused_before_the_body_is_read(tmp_path: Path) -> None:
    async with running(tmp_path, settings={"server.allowed_origins": ["http://localhost:3000"]}) as daemon:
        for headers in ({"host": "evil.example"}, {"host": f"evil.example:{daemon.port}"}, {"host": "127.0.0.1:1"}, {"host": "127.0.0.1"}):
            assert (await daemon.client.get("/v1/models", headers=headers)).status_code == 403, headers
        for host in (f"localhost:{daemon.port}", f"LOCALHOST:{daemon.port}", f"[::1]:{daemon.port}"):
            assert (await daemon.client.get("/v1/models", headers={"host": host})).status_code == 200
        for origin in ("https://evil.example", "https://[", "null", "http://localhost:3001", "http://127.0.0.1.evil.example"):
            assert (await daemon.client.post("/v1/chat/completions", json=BODY, headers={"origin": origin})).status_code == 403, origin
        allowed = await daemon.client.post("/v1/chat/completions", json=BODY, headers={"origin": "http://localhost:3000"})
        twice = [("origin", "http://localhost:3000"), ("origin", "https://evil.example")]
        assert (await daemon.client.post("/v1/chat/completions", json=BODY, headers=twice)).status_code == 403
        assert allowed.status_code == 200 and "access-control-allow-origin" not in allowed.headers
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: evil\r\nContent-Length: 1000000\r\n\r\n")
        assert b" 403 " in await asyncio.wait_for(reader.readline(), 2)
        writer.close()


async def test_a_form_post_and_a_websocket_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        form = await daemon.client.post("/v1/chat/completions", content=b'{"model":1}', headers={"content-type": "text/plain"})
        assert form.status_code == 415
        upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-key": "x" * 22 + "==", "sec-websocket-version": "13"}
        assert (await daemon.client.get("/v1/responses", headers=upgrade)).status_code == 400


async def test_an_agents_token_moves_and_runs_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        scenario = "/reef/scenarios/default"
        for path in ("promote", "rollback", "undo", "runs", "evaluation/base/v1/tokenize"):
            response = await daemon.client.post(f"{scenario}/{path}", json={"release_id": "r1", "text": "x"})
            assert response.status_code == 403, path
        assert (await daemon.client.delete(scenario)).status_code == 403


async def test_a_runs_token_reaches_its_own_evaluation_and_dies_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        tokens = daemon.services.tokens
        headers = {"authorization": f"Bearer {tokens.issue('run_1', 'default')}"}
        path = "/reef/scenarios/default/evaluation/base/v1/tokenize"
        assert (await daemon.bare.post(path, json={"text": "ab"}, headers=headers)).json() == {"tokens": [97, 98]}
        for other in ("/reef/scenarios/pi/evaluation/base/v1/tokenize", "/v1/chat/completions", "/reef/report"):
            assert (await daemon.bare.post(other, json={"text": "ab"}, headers=headers)).status_code == 403, other
        tokens.revoke("run_1")
        assert (await daemon.bare.post(path, json={"text": "ab"}, headers=headers)).status_code == 401


async def test_gzip_is_read_and_a_bomb_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.api.report._LIMIT_BYTES", 1 << 20)
    async with running(tmp_path) as daemon:
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        good = gzip.compress(b'{"model":"scripted","messages":[{"role":"user","content":"zip"}]}')
        response = await daemon.client.post("/v1/chat/completions", content=good, headers=headers)
        assert response.json()["choices"][0]["message"]["content"] == "echo: zip"
        assert (await daemon.client.post("/v1/chat/completions", content=good[:-9], headers=headers)).status_code == 400
        bomb = gzip.compress(b" " * (64 << 20))
        assert (await daemon.client.post("/reef/report", content=bomb, headers=headers)).status_code == 413
        plain = {"content-type": "application/json"}
        assert (await daemon.client.post("/reef/report", content=b" " * (2 << 20), headers=plain)).status_code == 413


async def test_bodies_that_together_would_fill_the_memory_are_refused_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.gateway.body.HELD_LIMIT_BYTES", 300_000)
    async with running(tmp_path) as daemon:
        writers = []
        for _ in range(2):  # clients that send half of what they announced, and then nothing
            _, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nContent-Type: application/json\r\n"
            token = f"Authorization: {daemon.client.headers['authorization']}\r\nContent-Length: 200000\r\n\r\n"
            writer.write((head + token).encode() + b" " * 100_000)
            writers.append(writer)
        await until(lambda: _Held.total_bytes == 200_000)
        refused = await daemon.chat("x", padding="y" * 150_000)
        assert refused.status_code == 429 and refused.headers["retry-after"]
        assert (await daemon.chat("x")).status_code == 200
        for writer in writers:
            writer.close()
        await until(lambda: _Held.total_bytes == 0)
        assert (await daemon.chat("x", padding="y" * 150_000)).status_code == 200


async def test_what_is_no_json_object_is_a_400_in_the_wires_own_shape(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        headers = {"content-type": "application/json"}
        for content in (b"{", b"[1]", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000, b'{"model": ' + b"9" * 5000 + b"}"):
            response = await daemon.client.post("/v1/chat/completions", content=content, headers=headers)
            assert response.status_code == 400 and response.json()["error"]["type"] == "invalid_request_error", content[:20]
            response = await daemon.client.post("/reef/report", content=content, headers=headers)
            assert response.status_code == 400 and set(response.json()["error"]) == {"code", "message", "hint"}
        assert (await daemon.client.get("/reef/nothing")).status_code == 404
        assert (await daemon.client.get("/v1/chat/completions")).status_code == 405
        anthropic = await daemon.client.post("/v1/messages", json={})
        assert anthropic.status_code == 400 and anthropic.json()["type"] == "error"


async def test_too_many_headers_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        assert (await daemon.client.get("/v1/models", headers={f"x-h{n}": "v" for n in range(200)})).status_code == 431


def test_tokens_are_made_private_and_a_readable_one_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    tokens = Tokens.load(home)
    assert home.owner_token.stat().st_mode & 0o777 == 0o600
    owner = tokens.identify(home.owner_token.read_text().strip())
    assert owner is not None and owner.role is Role.OWNER
    assert tokens.identify("") is None and tokens.identify("ä" * 50) is None
    os.chmod(home.client_token, 0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        Tokens.load(home)


async def test_without_a_token_only_by_setting_and_only_as_a_client(tmp_path: Path) -> None:
    async with running(tmp_path, settings={"server.require_token": False}) as daemon:
        assert (await daemon.bare.post("/v1/chat/completions", json=BODY)).status_code == 200
        assert (await daemon.bare.post("/reef/scenarios/default/undo", json={})).status_code == 403
        assert (await daemon.bare.get("/v1/models", headers={"authorization": "Bearer wrong"})).status_code == 401
