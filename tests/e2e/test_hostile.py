"""What would break an engine: each time a clear sentence, the engine alive, and a stream beside it that does not notice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from daemon.models import embedded_model
from tests.e2e.beside import Beside
from tests.e2e.reef_home import MANUAL, ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

_QUICK_S = 40.0  # on a busy machine; about one where nothing else runs
_GAP_S = 2.0  # between two tokens of the stream beside; usual are 0.01 to 0.03


@pytest.fixture(scope="module")
def reef(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReefHome]:
    with ReefHome(tmp_path_factory.mktemp("hostile") / "home", MANUAL) as running:
        running.start()
        yield running


@pytest.fixture(scope="module")
def beside(reef: ReefHome) -> Iterator[Beside]:
    """A stream that runs through all tests of this module."""
    with Beside(reef) as running:
        yield running


def chat(reef: ReefHome, **changed: Any) -> httpx.Response:
    body = {"model": reef.model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0, **changed}
    return reef.request("POST", "/v1/chat/completions", body, who="client")


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def held(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}


def many_tools(count: int) -> list[dict[str, Any]]:
    text = "Find what stands in a file and say where it stands."
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return [{"type": "function", "function": {"name": f"tool_{n}", "description": text, "parameters": schema}} for n in range(count)]


IMAGE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/"}}

HOSTILE: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "a prompt of 10 MB": (
        lambda: {"messages": [{"role": "user", "content": "far too long " * 800_000}]},
        "maximum context length is",
    ),
    "10 MB without a space": (lambda: {"messages": [{"role": "user", "content": "x" * (10 << 20)}]}, "maximum context length is"),
    "10,000 messages": (lambda: {"messages": [{"role": "user", "content": "Hello"}] * 10_000}, "maximum context length is"),
    "10,000 tools": (lambda: {"tools": many_tools(10_000)}, "maximum context length is"),
    "a schema 40 levels deep that does not hold": (lambda: held({**deep(40), "not": {"required": ["a"]}}), "not"),
    "a schema 200 levels deep": (lambda: held(deep(200)), ""),
    "a tool 200 levels deep": (
        lambda: {"tools": [{"type": "function", "function": {"name": "f", "parameters": deep(200)}}], "tool_choice": "required"},
        "",
    ),
    "a schema with a remote reference": (lambda: held({"$ref": "http://127.0.0.1:9/schema.json"}), "$ref"),
    "a schema that is no object": (lambda: held([1, 2]), "schema"),
    "max_tokens 0": (lambda: {"max_tokens": 0}, "max_tokens"),
    "max_tokens -1": (lambda: {"max_tokens": -1}, "max_tokens"),
    "n 1000": (lambda: {"n": 1000}, "'n'"),
    "a token that is not there": (lambda: {"logit_bias": {"99999999": 1}}, "logit_bias"),
    "a bias that is no number": (lambda: {"logit_bias": {"5": "much"}}, "logit_bias"),
    "21 alternatives": (lambda: {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    "an image": (
        lambda: {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/"}}]}]},
        "",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_each_is_refused_with_a_sentence_and_nobody_else_notices(reef: ReefHome, beside: Beside, name: str) -> None:
    make, words = HOSTILE[name]
    body = make()
    began = time.monotonic()
    answer = chat(reef, **body)
    took = time.monotonic() - began
    assert answer.status_code in (400, 413), answer.text[:500]
    error = answer.json()["error"]
    assert words.lower() in f"{error['message']} {error.get('param')}".lower()
    assert len(error["message"]) < 1000
    assert took < _QUICK_S
    beside.wait_for_a_piece()
    assert beside.longest_gap_s(began) < _GAP_S
    assert chat(reef).status_code == 200


def test_bytes_that_are_no_text_from_the_model_are_replaced_and_the_reply_is_valid(reef: ReefHome) -> None:
    """A bias makes the model say one byte of a character again and again."""
    lone = next(token for token in range(3, 400) if _is_lone_byte(reef, token))
    for stream in (False, True):
        answer = chat(reef, logit_bias={str(lone): 100}, max_tokens=8, stream=stream)
        assert answer.status_code == 200
        answer.content.decode("utf-8")  # strict
        assert "�" in answer.text
        if not stream:
            json.loads(answer.content)


def _is_lone_byte(reef: ReefHome, token: int) -> bool:
    answer = chat(reef, logit_bias={str(token): 100}, max_tokens=1, logprobs=True).json()
    shown = (answer["choices"][0]["logprobs"] or {}).get("content")
    return bool(shown) and len(shown[0]["bytes"]) == 1 and shown[0]["bytes"][0] >= 0x80


TEMPLATES = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
    "allocates": "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for a in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    "reaches out": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_models_own_template_that_is_hostile_refuses_its_requests_and_nothing_else(tmp_path: Path, name: str) -> None:
    path = tmp_path / "hostile.gguf"
    script = [
        sys.executable,
        "-m",
        "gguf.scripts.gguf_new_metadata",
        str(embedded_model()),
        str(path),
        "--chat-template",
        TEMPLATES[name],
        "--force",
    ]
    made = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    with ReefHome(tmp_path / "home", f"server: {{port: 0}}\nlearn: {{mode: manual}}\nengine: {{model: {path}}}\n") as reef:
        try:
            reef.start()
        except RuntimeError:  # refused with its sentence, before anything is served
            assert "chat template" in reef.output and "Traceback" not in reef.output
            return
        with Beside(reef, text="The river is long, and its boats") as running:
            began = time.monotonic()
            answer = chat(reef)
            took = time.monotonic() - began
            running.wait_for_a_piece()
            assert running.longest_gap_s(began) < _GAP_S
        assert answer.status_code in (400, 422), answer.text[:500]
        assert "template" in answer.json()["error"]["message"]
        assert took < _QUICK_S
