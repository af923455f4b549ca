"""Passing a request and its reply through as they are, but for the model's name and the receipt."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.engine.base import Engine, Forward
from daemon.gateway.call import Call
from daemon.gateway.errors import json_bytes
from daemon.json_text import parse
from daemon.records import JSONObject
from daemon.serving.snapshot import Snapshot


def passed_on(call: Call, engine: Engine, snapshot: Snapshot) -> Forward | None:
    """What of `call` goes to `engine` as the client sent it; None where it must be translated: a release's hints change it, or the
    engine does not speak the wire."""
    sent = call.sent
    if sent is None or call.wire not in engine.wires or not snapshot.plain:
        return None
    renamed = call.model != engine.model.id  # it pins a release
    body = json_bytes({**sent.value, "model": engine.model.id}) if renamed else sent.data
    return Forward(call.wire, body, call.stream, sent.headers)


def with_receipt(held: Sequence[bytes], reef: JSONObject) -> list[bytes]:
    """The events that end a stream, `reef` put into the last that holds an object, and in the place of another Reef's."""
    frames = list(held)
    for place in range(len(frames) - 1, -1, -1):
        body, end, after = frames[place].rpartition(b"}")
        if end and b"data:" in body:
            if b'"reef"' in body and (replaced := _replaced(frames[place], reef)):
                frames[place] = replaced
                return frames
            inner = body.rstrip()
            comma = b"" if inner.endswith(b"{") else b","
            frames[place] = body + comma + b'"reef":' + json_bytes(reef) + end + after
            return frames
    return [*frames, b"data: " + json_bytes({"reef": reef}) + b"\n\n"]


def _replaced(frame: bytes, reef: JSONObject) -> bytes | None:
    """`frame` with `reef` for the one that its object has already; None where it has none."""
    lines = frame.split(b"\n")
    for place, line in enumerate(lines):
        if not line.startswith(b"data:"):
            continue
        try:
            value = parse(line.removeprefix(b"data:"))
        except ValueError:
            return None
        if isinstance(value, dict) and "reef" in value:
            lines[place] = b"data: " + json_bytes({**value, "reef": reef})
            return b"\n".join(lines)
    return None
