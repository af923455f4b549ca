"""The process that runs templates: what loops, allocates or recurses for ever is ended there, and the next request is answered."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import date

import pytest

from daemon.engine.llama.chat.renderer import Limits, Renderer, TemplateSource
from daemon.engine.llama.chat.template import Conversation
from daemon.errors import BadRequest, DataError
from daemon.records import JSONObject
from tests.engine.templates import HOSTILE, HOSTILE_SOURCE

LIMITS = Limits(cpu_limit_s=0.1, memory_limit_bytes=256 << 20)


def conversation(content: str) -> Conversation:
    message: JSONObject = {"role": "user", "content": content}
    return Conversation([message], [], {}, date(2026, 1, 2))


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    made = Renderer(TemplateSource(HOSTILE_SOURCE), LIMITS)
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("name", ["loops", "calls itself"])
def test_a_template_without_end_is_ended_and_the_next_request_answered(renderer: Renderer, name: str) -> None:
    with pytest.raises(BadRequest, match=r"too much (time|memory)|nests too deep"):
        renderer.render(conversation(name))
    assert renderer.render(conversation("hello")) == [("hello", True)]


def test_a_process_that_was_killed_is_replaced_and_its_request_answered(renderer: Renderer) -> None:
    assert renderer.pid is not None
    before = renderer.pid
    os.kill(before, signal.SIGKILL)
    assert renderer.render(conversation("b")) == [("b", True)]
    assert renderer.pid != before


@pytest.mark.parametrize(("source", "limit"), [(HOSTILE["loops"], "time"), ("{{ messages | length * 'x' * 9999999999 }}", "memory")])
def test_a_template_that_always_goes_too_far_still_starts_and_says_so(source: str, limit: str) -> None:
    renderer = Renderer(TemplateSource(source), LIMITS)
    renderer.start()
    with pytest.raises(BadRequest, match=f"too much {limit}"):
        renderer.render(conversation("a"))
    renderer.close()


def test_a_template_that_does_not_compile_is_a_sentence() -> None:
    with pytest.raises(DataError, match="broken"):
        Renderer(TemplateSource("{% for %}"), LIMITS).start()
