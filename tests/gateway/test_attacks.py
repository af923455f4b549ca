"""The attacks on local model servers that docs/security.md lists, as far as they come over HTTP. Each test names its row."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from daemon.config import ServerConfig
from daemon.config_load import load
from daemon.errors import ConfigError
from daemon.paths import Home
from tests.daemon.running import running
from tests.engine.fake import ScriptedEngine
from tests.gateway.raw import answer, chat_bytes, is_well, request_bytes, statuses

JSON_TYPE = "Content-Type: application/json"


# DNS rebinding


FOREIGN_HOSTS = [
    ["Host: evil.example"],
    ["Host: 127.0.0.1.evil.example:{port}"],
    ["Host: 127.0.0.1"],
    ["Host: localhost:{port}@evil.example"],
    ["Host: [::1"],
    ["Host: "],
    [],
    ["Host: 127.0.0.1:{port}", "Host: evil.example"],
    ["Host: 127.0.0.1:{port}, evil.example"],
]


async def test_dns_rebinding_a_request_under_another_name_gets_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for lines in FOREIGN_HOSTS:
            hosts = [line.format(port=daemon.port) for line in lines]
            head = ["GET /v1/models HTTP/1.1", f"Authorization: {daemon.client.headers['authorization']}", *hosts]
            got = await answer(daemon, "\r\n".join(head).encode() + b"\r\n\r\n")
            assert statuses(got) in ([403], [400]) and b"scripted" not in got, hosts
            healthz = ["GET /healthz HTTP/1.1", *hosts]
            assert statuses(await answer(daemon, "\r\n".join(healthz).encode() + b"\r\n\r\n")) != [200], "not even what needs no token"


async def test_dns_rebinding_an_address_in_the_request_line_does_not_stand_for_the_host(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        got = await answer(daemon, b"GET http://127.0.0.1/v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert statuses(got) == [403]


# Cross-site requests and drive-by WebSockets


async def test_cross_site_a_web_page_is_refused_and_given_no_cors_header(tmp_path: Path) -> None:
    origins = ("https://evil.example", "null", "http://127.0.0.1:1", "file://", "chrome-extension://abc")
    paths = ("/v1/models", "/healthz", "/reef/status", "/openapi.json")
    async with running(tmp_path) as daemon:
        for origin, path, method in product(origins, paths, ("GET", "OPTIONS")):
            headers = {"origin": origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
            got = await daemon.client.request(method, path, headers=headers)
            assert got.status_code == 403
            assert not [name for name in got.headers if name.startswith("access-control-")]


async def test_cross_site_what_a_form_can_send_is_no_request(tmp_path: Path) -> None:
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json")
    async with running(tmp_path) as daemon:
        body = b'{"model": "scripted", "messages": [{"role": "user", "content": "x"}]}'
        for kind, path in product(kinds, ("/v1/chat/completions", "/reef/report", "/reef/scenarios/default/undo")):
            got = await daemon.owner.post(path, content=body, headers={"content-type": kind} if kind else {})
            assert got.status_code == 415, path
        assert daemon.services.reader.counts("default").inferences == 0


async def test_cross_site_a_websocket_is_refused_whatever_its_origin(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {'x' * 22}=="]
        for extra, status in (([], 400), (["Origin: https://evil.example"], 403), ([f"Origin: http://127.0.0.1:{daemon.port}"], 400)):
            got = await answer(daemon, request_bytes(daemon, "GET", "/v1/models", [*upgrade, *extra]))
            assert statuses(got) == [status] and b" 101 " not in got
        h2c = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"]
        assert b" 101 " not in await answer(daemon, request_bytes(daemon, "GET", "/v1/models", h2c))
        await is_well(daemon)


# Token checked for presence only


async def test_token_by_value_what_is_not_the_token_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        token = daemon.client.headers["authorization"].removeprefix("Bearer ")
        wrong = ["x", token[:-1], token + "x", token.upper(), "ü" * 10, "Bearer", token[::-1], "null", "undefined"]
        for value in wrong:
            for name, text in (("authorization", f"Bearer {value}"), ("x-api-key", value), ("authorization", value)):
                got = await daemon.bare.get("/v1/models", headers={name: text.encode()})
                assert got.status_code == 401 and got.json()["error"]["code"] == "invalid_api_key"
        for lines in (["Authorization: Bearer"], ["Authorization:"], [f"Authorization: Basic {token}"], [f"Cookie: token={token}"]):
            head = [f"GET /v1/models?token={token}&api_key={token} HTTP/1.1", f"Host: 127.0.0.1:{daemon.port}", *lines]
            assert statuses(await answer(daemon, "\r\n".join(head).encode() + b"\r\n\r\n")) == [401]


async def test_token_first_an_unknown_route_tells_strangers_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for method, path in (("GET", "/nothing"), ("PUT", "/v1/models"), ("GET", "/reef/scenarios/default"), ("OPTIONS", "/v1/models")):
            assert (await daemon.bare.request(method, path)).status_code == 401, path
        for path in ("/healthz/", "/healthz/../v1/models", "//healthz", "/healthz%00", "/HEALTHZ", "/healthz;x"):
            got = await answer(daemon, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n\r\n".encode())
            assert statuses(got) in ([401], [400]), path


# Server-side request forgery


@contextlib.asynccontextmanager
async def bait() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that notes who comes by."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(1000))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x", seen
    finally:
        server.close()


async def test_server_side_request_forgery_no_address_in_a_request_is_fetched(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon, bait() as (url, seen):
        parts = [
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "input_image", "image_url": url},
            {"type": "input_file", "file_url": url},
            {"type": "image", "source": {"type": "url", "url": url}},
            {"type": "document", "source": {"type": "url", "url": url}},
            {"type": "text", "text": f"![x]({url})"},
        ]
        schema = {"type": "object", "properties": {"a": {"$ref": url}, "b": {"$ref": f"{url}#/definitions/x"}}, "$schema": url}
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        mcp = {"type": "mcp", "server_url": url, "server_label": "x"}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        for part in parts:
            message = {"role": "user", "content": [part]}
            chat = {"model": "scripted", "messages": [message], "tools": [tool, mcp], "response_format": form}
            await daemon.client.post("/v1/chat/completions", json=chat)
            await daemon.client.post("/v1/responses", json={"model": "scripted", "input": [message], "tools": [mcp]})
            await daemon.client.post("/v1/messages", json={"model": "scripted", "max_tokens": 9, "messages": [message]})
        await daemon.client.post("/v1/embeddings", json={"model": "scripted", "input": url})
        await daemon.client.post("/api/show", json={"model": url, "name": url})
        await daemon.client.post("/reef/report", json={"score": 1, "metadata": {"callback_url": url}, "feedback": {"note": url}})
        await daemon.owner.post("/reef/models/use", json={"name": url})
        await daemon.owner.post("/reef/scenarios/default/runs", json={"recipe": url, "settings": {"teacher_url": url}, "dry_run": True})
        headers = {"x-forwarded-host": url, "referer": url, "x-reef-tag-callback": url, "forwarded": f"host={url}"}
        assert (await daemon.client.get("/v1/models", headers=headers)).status_code == 200
        await is_well(daemon)
        assert not seen


# Exposure on the network


@pytest.mark.parametrize("settings", [{"server.host": "0.0.0.0"}, {"server.host": "::"}, {"server.host": "192.0.2.1"}])
def test_exposure_another_address_than_loopback_needs_the_flag_and_a_token(tmp_path: Path, settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="expose"):
        load(Home(tmp_path), None, {}, settings)
    assert load(Home(tmp_path), None, {}, {**settings, "server.expose": True}).config.server.expose
    with pytest.raises(ConfigError, match="token"):
        load(Home(tmp_path), None, {}, {**settings, "server.expose": True, "server.require_token": False})


def test_exposure_loopback_is_the_default() -> None:
    assert ServerConfig().host == "127.0.0.1" and ServerConfig().require_token and not ServerConfig().allowed_origins


# Request smuggling, and requests that are none


AMBIGUOUS = [
    ["Content-Length: 5", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding: chunked", "Content-Length: 5"],
    ["Content-Length: 5", "Content-Length: 6"],
    ["Content-Length: 5, 5"],
    ["Content-Length: +5"],
    ["Content-Length: -1"],
    ["Content-Length: 0x5"],
    ["Content-Length: 99999999999999999999999999"],
    ["Transfer-Encoding: xchunked"],
    ["Transfer-Encoding: chunked, identity"],
    ["Transfer-Encoding : chunked"],
    ["Transfer-Encoding:\x0bchunked"],
    ["X: y\r\n Transfer-Encoding: chunked"],
    ["X: a\x00b"],
    ["X\x00Y: a"],
    [": empty"],
    ["no colon"],
]


async def test_smuggling_what_two_servers_may_read_differently_closes_the_connection(tmp_path: Path) -> None:
    """The second request, which would be hidden in the first one's body for a proxy before us, must not be answered."""
    engine = ScriptedEngine()
    async with running(tmp_path, engine) as daemon:
        hidden = chat_bytes(daemon, "hidden")
        for head in AMBIGUOUS:
            got = await answer(daemon, request_bytes(daemon, "POST", "/reef/report", [JSON_TYPE, *head], b"0\r\n\r\n") + hidden)
            assert len(statuses(got)) <= 1 and not [status for status in statuses(got) if status < 400], (head, got)
        assert not engine.requests
        await is_well(daemon)


NO_HTTP = [
    b"\x00" * 100,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,  # TLS to a plain port
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x04\x01\x1f\x90\x7f\x00\x00\x01\x00",  # SOCKS
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
]


async def test_what_is_no_http_is_refused_and_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for data in NO_HTTP:
            got = await answer(daemon, data, end=True)
            assert not statuses(got) or statuses(got)[0] in (400, 403, 505), got
        await is_well(daemon)


async def test_http_1_0_head_and_other_methods_get_what_they_should(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        old = await answer(daemon, request_bytes(daemon, version="1.0"))
        assert statuses(old) == [200] and b"scripted" in old
        stream = await answer(daemon, chat_bytes(daemon, "old", stream=True).replace(b"HTTP/1.1", b"HTTP/1.0", 1), to_the_end=True)
        assert statuses(stream) == [200] and b"agent_record_id" in stream
        head = await answer(daemon, request_bytes(daemon, "HEAD"))
        assert statuses(head) == [200] and head.endswith(b"\r\n\r\n")
        for method in ("OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"):
            got = await answer(daemon, request_bytes(daemon, method, "/v1/models"))
            assert statuses(got)[0] in (400, 405), method
            assert b"reef-client-" not in got, "nothing of the request comes back"
        await is_well(daemon)
