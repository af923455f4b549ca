"""The chat templates that llama.cpp carries: each renders a conversation with tools, and its family is recognised or named unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from daemon.engine.llama.chat.renderer import Limits, Renderer, TemplateSource
from daemon.engine.llama.chat.template import ChatTemplate, Conversation
from daemon.engine.llama.formats.families import format_of
from daemon.errors import BadRequest
from daemon.records import JSONObject
from tests.e2e.llama_source import llama_source
from tests.engine.templates import HOSTILE, HOSTILE_SOURCE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
__all__ = ["llama_source"]  # a fixture

EXPECTED: dict[str, dict[str, str]] = json.loads((Path(__file__).parent.parent / "data" / "chat_templates.json").read_text())
"""By template: its format's name, the variable that it gets tools in ("": a prompt of ours lists them), where it reads reasoning from."""

DROPS_TEXT_BESIDE_CALLS = {
    "Cohere2MoE",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "MiniMax-M1",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "muse-glimmer",
    "upstage-Solar-Open-100B",
}
WRITES_PYTHON = {"Apriel-1.6-15b-Thinker-fixed", "unsloth-Apriel-1.5"}  # were trained so
DAY = date(2026, 3, 4)


def tool(name: str, **properties: JSONObject) -> JSONObject:
    parameters: JSONObject = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": parameters}}


TOOLS = [tool("read_file", file_path={"type": "string", "description": "Where it lies."}), tool("count_lines", of_text={"type": "string"})]


def call(number: int, name: str, arguments: JSONObject) -> JSONObject:
    return {"id": f"call_{number:024x}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def result(number: int, content: str | list[JSONObject]) -> JSONObject:
    return {"role": "tool", "tool_call_id": f"call_{number:024x}", "content": content if isinstance(content, str) else [*content]}


SYSTEM: JSONObject = {"role": "system", "content": "Word-system."}
ASK: JSONObject = {"role": "user", "content": [{"type": "text", "text": "Word-question."}]}
READ: JSONObject = {
    "role": "assistant",
    "content": "Word-announcement.",
    "reasoning_content": "Word-thought.",
    "tool_calls": [call(1, "read_file", {"file_path": "word-path"})],
}
BOTH: JSONObject = {
    "role": "assistant",
    "content": None,
    "tool_calls": [call(2, "read_file", {"file_path": "word-second"}), call(3, "count_lines", {"of_text": "word-third"})],
}
ANSWER: JSONObject = {"role": "assistant", "content": "Word-answer."}
AGAIN: JSONObject = {"role": "user", "content": "Word-again."}
FIRST = [SYSTEM, ASK, READ, result(1, "Word-content.")]
WHOLE = [*FIRST, BOTH, result(2, [{"type": "text", "text": "Word-two."}]), result(3, "Word-three."), ANSWER, AGAIN]


@pytest.fixture(scope="module")
def compiled(llama_source: Path) -> dict[str, ChatTemplate]:
    sources = sorted(llama_source.glob("templates/*.jinja"))
    return {source.stem: ChatTemplate(source.read_text(), begin_text="<BOS>", end_text="<EOS>") for source in sources}


def render(template: ChatTemplate, messages: list[JSONObject], tools: list[JSONObject]) -> str:
    return "".join(text for text, _ in template.render(Conversation(messages, tools, {}, DAY)))


def test_the_table_names_every_template(compiled: dict[str, ChatTemplate]) -> None:
    assert set(compiled) == set(EXPECTED) and len(compiled) >= 70


def test_the_family_is_recognised_or_named_unknown(compiled: dict[str, ChatTemplate], llama_source: Path) -> None:
    found = {
        name: {
            "format": format_of((llama_source / "templates" / f"{name}.jinja").read_text()).name,
            "tools": template.traits.tools,
            "reasoning": template.traits.reasoning,
        }
        for name, template in compiled.items()
    }
    assert found == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_conversation_with_tools_comes_out_whole_and_in_order(compiled: dict[str, ChatTemplate], name: str) -> None:
    template = compiled[name]
    text = render(template, WHOLE, TOOLS)
    for word in ("read_file", "file_path", "count_lines", "of_text"):
        assert word in text
    words = ["Word-question.", "word-path", "Word-content.", "word-second", "Word-two.", "Word-three.", "Word-answer.", "Word-again."]
    places = [text.find(word) for word in words]
    assert min(places) >= 0 and places == sorted(places), dict(zip(words, places, strict=True))
    assert text.find("word-second") < text.find("word-third") < text.find("Word-three.")
    assert ("Word-announcement." in render(template, FIRST, TOOLS)) == (name not in DROPS_TEXT_BESIDE_CALLS)
    assert text.count("Word-system.") == 1
    assert text.find("Word-system.") < text.find("Word-question.")
    assert ("{'" in text) == (name in WRITES_PYTHON)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_reasoning_of_the_turn_under_way_is_replayed(compiled: dict[str, ChatTemplate], name: str) -> None:
    assert ("Word-thought." in render(compiled[name], FIRST, TOOLS)) == bool(EXPECTED[name]["reasoning"])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_what_clients_send_is_rendered_by_every_template(compiled: dict[str, ChatTemplate], name: str) -> None:
    late: JSONObject = {"role": "developer", "content": "Word-late."}
    conversations: list[list[JSONObject]] = [
        [SYSTEM, late, ASK],
        [ASK, ANSWER, late, AGAIN],
        [ASK, AGAIN],
        [SYSTEM],
        [ANSWER, ASK],
        [ASK, BOTH, result(2, "Word-two."), result(3, "Word-three."), AGAIN],
        [ASK, READ, AGAIN],
        [ASK, {"role": "assistant", "content": None}, AGAIN],
    ]
    for messages in conversations:
        for tools in ([], TOOLS):
            text = render(compiled[name], messages, tools)
            wanted = {"Word-question.": ASK, "Word-late.": late, "Word-again.": AGAIN, "Word-system.": SYSTEM}
            assert all(text.count(word) == 1 for word, message in wanted.items() if message in messages), (messages, text)


def test_every_template_runs_in_its_own_process_too(llama_source: Path) -> None:
    for source in sorted(llama_source.glob("templates/*.jinja"))[::7]:
        renderer = Renderer(TemplateSource(source.read_text(), "<BOS>", "<EOS>", ("<|im_end|>", "<EOS>")))
        renderer.start()
        assert any("Word-again." in text for text, _ in renderer.render(Conversation(WHOLE, TOOLS, {}, DAY)))
        renderer.close()


@pytest.fixture(scope="module")
def hostile() -> Iterator[Renderer]:
    renderer = Renderer(TemplateSource(HOSTILE_SOURCE), Limits(cpu_limit_s=0.5, memory_limit_bytes=256 << 20))
    renderer.start()
    yield renderer
    renderer.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_without_end_is_ended_and_the_next_request_answered(hostile: Renderer, name: str) -> None:
    with pytest.raises(BadRequest, match=r"template (takes|cannot)"):
        hostile.render(Conversation([{"role": "user", "content": name}], [], {}, DAY))
    assert hostile.render(Conversation([{"role": "user", "content": "hello"}], [], {}, DAY)) == [("hello", True)]


def _captured() -> dict[str, JSONObject]:
    """Bodies of chat requests, by capture."""
    found = {
        path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent.parent / "data" / "captures").glob("*.json"))
    }
    return {name: capture["body"] for name, capture in found.items() if "chat/completions" in capture["path"]}


@pytest.mark.parametrize("capture", sorted(_captured()))
def test_what_each_agent_sends_is_rendered_by_every_template(compiled: dict[str, ChatTemplate], capture: str) -> None:
    body = _captured()[capture]
    messages, tools = body["messages"], body.get("tools") or []
    assert isinstance(messages, list) and isinstance(tools, list)
    sent = [message for message in messages if isinstance(message, dict)]
    for name, template in compiled.items():
        text = render(template, sent, [tool for tool in tools if isinstance(tool, dict)])
        for message in sent:
            content = message.get("content")
            if message.get("role") in ("system", "developer", "user") and isinstance(content, str):
                assert content.strip()[:40] in text, (name, content[:200])
