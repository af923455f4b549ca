"""What real agents send on the chat wire, to the real engine: accepted, and answered with a stream that they can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from daemon.conformance.replies import Reply, read_whole
from tests.e2e.reef_home import MANUAL, ReefHome
from tests.e2e.test_tools import read_stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
CHAT = sorted(path.stem for path in CAPTURES.glob("*.json") if json.loads(path.read_text())["path"] == "/v1/chat/completions")
_NOT_SENT = {"host", "content-length", "connection", "authorization", "accept-encoding", "content-encoding", "transfer-encoding"}
_REPLY_TOKENS = 24
_AT_ONCE = 4


@pytest.fixture(scope="module")
def reef(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReefHome]:
    with ReefHome(tmp_path_factory.mktemp("captures") / "home", MANUAL) as running:
        running.start()
        yield running


def replay(reef: ReefHome, name: str) -> httpx.Response:
    """The captured request with the served model and a short reply."""
    captured = json.loads((CAPTURES / f"{name}.json").read_text())
    body: dict[str, Any] = {**captured["body"], "model": reef.model}
    limits = [field for field in ("max_tokens", "max_completion_tokens") if field in body] or ["max_tokens"]
    body |= dict.fromkeys(limits, _REPLY_TOKENS)
    headers = {key.lower(): value for key, value in captured["headers"] if key.lower() not in _NOT_SENT}
    headers["authorization"] = f"Bearer {reef.token('client')}"
    return reef.http.post(f"{reef.url}/v1/chat/completions", content=json.dumps(body), headers=headers, timeout=240)


def read(answer: httpx.Response) -> Reply:
    if "text/event-stream" in answer.headers["content-type"]:
        return read_stream(answer.text)
    return read_whole(answer.json())


def test_every_captured_request_is_answered_four_at_once(reef: ReefHome) -> None:
    assert len(CHAT) > 10
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(CHAT, pool.map(lambda name: replay(reef, name), CHAT), strict=True))
    for name, answer in answers.items():
        assert answer.status_code == 200, (name, answer.text)
        asked = json.loads((CAPTURES / f"{name}.json").read_text())["body"]
        found = read(answer)
        assert found.problems == (), name
        assert found.prompt_tokens or "stream_options" not in asked, (name, "no usage, though it was asked for")
        assert found.text or found.reasoning or found.calls or found.completion_tokens <= 1, (name, "an empty reply")
        assert found.finish_reason in ("stop", "length", "tool_calls"), name


@pytest.mark.parametrize("agent", ["pi-min", "opencode", "qwen", "continue"])
def test_the_second_turn_of_an_agent_reuses_its_first(reef: ReefHome, agent: str) -> None:
    """What both have in common is not read again: the system prompt, the tools, the question."""
    number = {"opencode": ("02", "03")}.get(agent, ("01", "02"))
    first, second = (read(replay(reef, f"{agent}-{one}")) for one in number)
    assert second.cached_tokens > first.prompt_tokens * 0.9, (first.prompt_tokens, second.cached_tokens, second.prompt_tokens)
