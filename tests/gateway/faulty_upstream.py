"""An upstream that does one thing wrong at a time, on raw sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import Awaitable, Callable
from types import TracebackType

Writer = asyncio.StreamWriter
Fault = Callable[[Writer, bool, bytes], Awaitable[None]]
HANG_S = 30.0  # longer than any test waits

_CHUNKS = {
    b"/chat/completions": [b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"beginning "}}]}\n\n'],
    b"/completions": [b'data: {"id":"c","choices":[{"index":0,"text":"beginning "}]}\n\n'],
    b"/responses": [
        b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response",'
        b'"created_at":1,"status":"in_progress","model":"scripted","output":[]}}\n\n',
        b'event: response.output_item.added\ndata: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":'
        b'{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}}\n\n',
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":2,"item_id":"msg_1",'
        b'"output_index":0,"content_index":0,"delta":"beginning "}\n\n',
    ],
    b"/messages": [
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",'
        b'"model":"scripted","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}\n\n',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"beginning "}}\n\n',
    ],
}


class FaultyUpstream:
    """`fault` answers whatever is asked, but for the models; None: a plain chat reply."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.visitors = 0
        self.url = ""

    async def __aenter__(self) -> FaultyUpstream:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
            body = await reader.readexactly(length)
            path = head.split(b" ", 2)[1].partition(b"?")[0]
            if path.endswith(b"/models"):
                writer.write(whole(b'{"data":[{"id":"scripted","context_length":2048}]}'))
            elif self.fault is None:
                writer.write(whole(b"", status=b"503 Unavailable"))
            else:
                self.visitors += 1
                await self.fault(writer, bool(json.loads(body).get("stream")), path.removeprefix(b"/v1"))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def whole(body: bytes, *, status: bytes = b"200 OK", kind: bytes = b"application/json", more: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n%s\r\n"
    return head % (status, kind, len(body), more) + body


def begun(stream: bool, path: bytes) -> bytes:
    """The beginning of a good reply, of no stated length."""
    kind = b"text/event-stream" if stream else b"application/json"
    beginning = b"".join(_CHUNKS[path]) if stream else b'{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"beg'
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\nconnection: close\r\n\r\n" % kind + beginning


async def hangs_at_once(writer: Writer, stream: bool, path: bytes) -> None:
    await asyncio.sleep(HANG_S)


async def hangs_midway(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(begun(stream, path))
    await asyncio.sleep(HANG_S)


async def hangs_in_headers(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event")
    await asyncio.sleep(HANG_S)


async def closes_at_once(writer: Writer, stream: bool, path: bytes) -> None:
    pass


async def closes_midway(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(begun(stream, path))


async def resets_midway(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(begun(stream, path))
    await writer.drain()
    await asyncio.sleep(0.02)
    writer.transport.abort()


async def sends_less_than_it_said(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(begun(stream, path).replace(b"connection: close", b"content-length: 999999\r\nconnection: close", 1))


async def breaks_its_chunks(writer: Writer, stream: bool, path: bytes) -> None:
    head, _, body = begun(stream, path).partition(b"\r\n\r\n")
    writer.write(head + b"\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\nzz\r\nnonsense" % (len(body), body))


async def speaks_no_http(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(b"\x00\x01\x02 SSH-2.0 nonsense\r\n\r\n" * 50)


async def sends_garbage_events(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(begun(stream, path) + b'\xff\xfe\x00}}}\n\ndata: <html>oops\n\ndata: {"choices": 7}\n\ndata: [[[\n\n')


async def sends_odd_types(writer: Writer, stream: bool, path: bytes) -> None:
    odd = b'{"choices":{"0":[]},"output":"x","content":7,"usage":[],"id":{},"type":[],"delta":false,"error":null,"response":9}'
    writer.write(whole(odd) if not stream else begun(True, path) + b"data: " + odd + b"\n\n")


async def sends_half_json(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(whole(b'{"choices": [{"message": {"content": "half'))


async def sends_deep_json(writer: Writer, stream: bool, path: bytes) -> None:
    deep = b'{"choices":' + b"[" * 200_000
    writer.write(whole(deep) if not stream else begun(True, path) + b"data: " + deep + b"\n\n")


async def sends_a_web_page(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(whole(b"<html><body>Sign in to the hotel's network</body></html>", kind=b"text/html"))


async def sends_nothing(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(whole(b""))


async def sends_no_content(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")


async def sends_huge_headers(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: %s\r\n" % (number, b"y" * 4000) for number in range(500)) + b"\r\n{}")


async def sends_zipped(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(whole(gzip.compress(b" " * (8 << 20)), more=b"content-encoding: gzip\r\n"))


async def never_ends(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(begun(stream, path))
    with contextlib.suppress(ConnectionError):
        for _ in range(2000):
            writer.write(_CHUNKS[path][-1] * 20 if stream else b"more " * 400)
            await writer.drain()


async def never_ends_its_line(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(begun(stream, path) + b"data: ")
    with contextlib.suppress(ConnectionError):
        for _ in range(2000):
            writer.write(b"x" * 4000)
            await writer.drain()


async def fails_with_a_page(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(whole(b"<html>502 Bad Gateway</html>" * 5000, status=b"502 Bad Gateway", kind=b"text/html"))


async def fails_without_a_word(writer: Writer, stream: bool, path: bytes) -> None:
    writer.write(whole(b"", status=b"500 Oops"))


async def says_that_it_fails(writer: Writer, stream: bool, path: bytes) -> None:
    failed = b'{"type":"error","error":{"type":"server_error","code":"server_error","message":"out of memory"}}'
    writer.write(whole(failed, status=b"500 Oops") if not stream else begun(True, path) + b"event: error\ndata: " + failed + b"\n\n")


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        hangs_at_once,
        hangs_midway,
        hangs_in_headers,
        closes_at_once,
        closes_midway,
        resets_midway,
        sends_less_than_it_said,
        breaks_its_chunks,
        speaks_no_http,
        sends_garbage_events,
        sends_odd_types,
        sends_half_json,
        sends_deep_json,
        sends_a_web_page,
        sends_nothing,
        sends_no_content,
        sends_huge_headers,
        sends_zipped,
        never_ends,
        never_ends_its_line,
        fails_with_a_page,
        fails_without_a_word,
        says_that_it_fails,
    )
}
