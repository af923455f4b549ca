"""The HTTP client behind an upstream engine: every shape of an answer, and whatever a server may do to the next request's."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from daemon.engine.upstream.client import Client
from daemon.engine.upstream.errors import Unreachable
from daemon.errors import EngineError

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
Visit = Callable[[Client, "Server"], Awaitable[None]]


class Server:
    """Answers each request with the next of `answers`, as raw bytes in pieces; `None` closes the connection."""

    def __init__(self) -> None:
        self.answers: list[list[bytes | None]] = []
        self.heads: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]))
                for piece in self.answers.pop(0):
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.002)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def visit(request: pytest.FixtureRequest) -> Callable[[Visit], None]:
    """Runs a test on each of the two loops: their transports differ."""

    async def among(test: Visit) -> None:
        server = Server()
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        client = Client(url, connect_timeout_s=2, read_timeout_s=0.2, idle_s=5)
        try:
            await test(client, server)
        finally:
            client.close()
            listening.close()

    run = asyncio.run if request.param == "asyncio" else uvloop.run
    return lambda test: run(among(test))


async def asked(client: Client, limit_bytes: int = 1 << 20, body: bytes = b"{}") -> bytes | None:
    answer = await client.ask("POST", "chat", {"x-key": "k"}, body)
    try:
        return await answer.whole(limit_bytes)
    finally:
        client.give_back(answer)


def chunked(*parts: bytes, more: bytes = b"") -> bytes:
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(part), more, part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        [OK],
        [OK[:20], OK[20:-1], OK[-1:]],
        [chunked(b"h", b"i")],
        [chunked(b"hi", more=b";note=" + b"n" * 100)],
        [chunked(b"hi")[:-2] + b"x-trailer: one\r\ncontent-type: x\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\ncontent-length: 7\r\n\r\n" + OK],
        [b"HTTP/1.1 200 OK\r\n\r\nh", b"i", None],
        [b"HTTP/1.0 200 OK\r\n\r\nhi", None],
    ],
)
def test_every_shape_of_an_answer_is_read(visit: Callable[[Visit], None], answer: list[bytes | None]) -> None:
    async def test(client: Client, server: Server) -> None:
        for _ in range(3):
            server.answers.append(answer)
            assert await asked(client) == b"hi"
        assert server.connections == (3 if answer[-1] is None else 1)
        assert server.heads[0].startswith(b"POST /v1/chat HTTP/1.1\r\nhost: 127.0.0.1:")
        assert b"\r\nx-key: k\r\n" in server.heads[0]

    visit(test)


@pytest.mark.parametrize(
    "answer",
    [
        [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi", None],
        [chunked(b"hi")[:-3], None],
        [b"HTTP/1.1 200 OK\r\nx: y", None],
        [None],
        [b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000],
        [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000 + b"\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n" + b"x: y\r\n" * 300_000 + b"\r\n"],
        [b"SSH-2.0 hello\r\n"],
        [b"HTTP/1.1 20 OK\r\ncontent-length: 9\r\n\r\nhi", None],
        [b"HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\nhi"],
        [b"HTTP/1.1 000 \r\n\r\nhi", None],
    ],
)
def test_what_is_no_answer_or_half_of_one_is_an_error_and_its_connection_is_not_used_again(
    visit: Callable[[Visit], None], answer: list[bytes | None]
) -> None:
    async def test(client: Client, server: Server) -> None:
        server.answers += [answer, [OK]]
        with pytest.raises(EngineError, match="broke"):
            await asked(client)
        assert await asked(client) == b"hi"
        assert server.connections == 2

    visit(test)


def test_bytes_behind_an_answer_are_not_taken_for_the_next_ones(visit: Callable[[Visit], None]) -> None:
    false = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfalse"

    async def test(client: Client, server: Server) -> None:
        for answer in ([OK + false], [OK, false], [OK + b"junk"]):
            server.answers += [answer, [OK]]
            assert await asked(client) == b"hi"
            await asyncio.sleep(0.01)
            assert await asked(client) == b"hi"
        assert server.connections == 4, "a server that speaks out of turn is not spoken to again there"

    visit(test)


def test_an_answer_that_nobody_reads_to_its_end_takes_its_connection_with_it(visit: Callable[[Visit], None]) -> None:
    async def test(client: Client, server: Server) -> None:
        server.answers += [[b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi"], [OK]]
        client.give_back(await client.ask("POST", "chat", {}, b"{}"))
        assert await asked(client) == b"hi"
        assert server.connections == 2

    visit(test)


def test_silence_is_noticed_and_a_slow_reader_is_no_silence(visit: Callable[[Visit], None]) -> None:
    async def test(client: Client, server: Server) -> None:
        server.answers += [[b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi"]]
        with pytest.raises(EngineError, match="in time"):
            await asked(client)
        size = 8 << 20
        server.answers += [[b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size, bytes(size)]]
        answer = await client.ask("POST", "chat", {}, b"{}")
        await asyncio.sleep(0.4)
        got = [len(block) async for block in answer.blocks()]
        client.give_back(answer)
        assert sum(got) == size
        assert max(got) < size // 2, "what nobody has read yet stays with the server"

    visit(test)


def test_more_than_the_limit_is_not_taken_in(visit: Callable[[Visit], None]) -> None:
    async def test(client: Client, server: Server) -> None:
        server.answers += [[b"HTTP/1.1 200 OK\r\n\r\n" + bytes(2 << 20)], [chunked(bytes(1 << 20))]]
        assert await asked(client, 1 << 20) is None
        assert await asked(client, 1 << 20, body=bytes(5 << 20)) == bytes(1 << 20)

    visit(test)


def test_a_header_can_not_begin_another(visit: Callable[[Visit], None]) -> None:
    async def test(client: Client, server: Server) -> None:
        for value in ("a\r\nx: y", "a\ny", "\n"):
            with pytest.raises(EngineError):
                await client.ask("POST", "chat", {"x": value}, b"{}")
        assert not server.connections

    visit(test)


async def test_a_url_that_leads_nowhere_is_unreachable() -> None:
    for url in ("http://127.0.0.1:1/v1", "http://127.0.0.1:99999/v1", "http://nowhere.invalid/v1", "https://[::1/v1", "http://" + "x" * 99):
        with pytest.raises(Unreachable):
            await Client(url, connect_timeout_s=2, read_timeout_s=1, idle_s=1).ask("GET", "models", {})


@pytest.fixture
def own_certificate(tmp_path: Path) -> ssl.SSLContext:
    """Of a server that nobody has vouched for."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout"
    subprocess.run([*command.split(), str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


async def test_a_server_that_is_not_trusted_or_does_not_encrypt_is_told_of_as_that(own_certificate: ssl.SSLContext) -> None:
    """Not as one that is away: it would be looked for in the wrong place."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    for context, said in ((own_certificate, "self-signed certificate"), (None, "does not speak TLS")):
        listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        url = f"https://localhost:{listening.sockets[0].getsockname()[1]}/v1"
        client = Client(url, connect_timeout_s=5, read_timeout_s=1, idle_s=1)
        with pytest.raises(Unreachable, match=f"cannot be reached safely: .*{said}") as error:
            await client.ask("GET", "models", {})
        assert "SSL_CERT_FILE" in error.value.hint
        client.close()
        listening.close()


def test_a_request_that_still_connects_when_all_ends_is_not_left_alone(visit: Callable[[Visit], None]) -> None:
    """Its timeouts would be nobody's."""

    async def test(client: Client, server: Server) -> None:
        server.answers.append([])
        waiting = asyncio.create_task(client.ask("GET", "models", {}))
        await asyncio.sleep(0)
        client.close()
        with pytest.raises(EngineError, match="broke"):
            await asyncio.wait_for(waiting, 5)

    visit(test)
