"""The tool-call corpus: what each template of llama.cpp writes of an assistant's calls, its family's parser reads back as those calls."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from daemon.engine.llama.chat.template import ChatTemplate, Conversation
from daemon.engine.llama.formats.families import OURS, format_of
from daemon.records import JSONObject
from tests.e2e.llama_source import llama_source
from tests.engine.replies import read_reply, tool

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
__all__ = ["llama_source"]  # a fixture

TABLE: dict[str, dict[str, str]] = json.loads((Path(__file__).parent.parent / "data" / "chat_templates.json").read_text())
KNOWN = sorted(name for name, row in TABLE.items() if row["format"] != "unknown")
ONE_CALL = {"GigaChat3-10B-A1.8B", "GigaChat3.1-10B-A1.8B", *(name for name in KNOWN if name.startswith("meta-llama"))}
"""Templates that write only the first call of a turn, or cannot write two."""
OPENS_REASONING_IN_THE_PROMPT_ALONE = {"Apriel-1.6-15b-Thinker-fixed"}

TOOLS = (
    tool(
        "write",
        path={"type": "string"},
        lines={"type": "integer"},
        keep={"type": "boolean"},
        marks={"type": "array", "items": {"type": "integer"}},
        more={"type": "object", "additionalProperties": {"type": "string"}},
    ),
    tool("look", at={"type": "string"}),
)
WRITE: JSONObject = {"path": 'a "b"\n</c> é', "lines": 3, "keep": True, "marks": [1, 2], "more": {"x": "y", "z": "it's"}}
LOOK: JSONObject = {"at": "here"}
ASK: JSONObject = {"role": "user", "content": "Word-question."}


def _turn(*calls: tuple[str, JSONObject]) -> JSONObject:
    return {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Word-thought.",
        "tool_calls": [
            {"id": f"call_{number:024x}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for number, (name, arguments) in enumerate(calls)
        ],
    }


def _render(template: ChatTemplate, messages: list[JSONObject], *, generate: bool) -> str:
    conversation = Conversation(messages, list(TOOLS), {}, date(2026, 3, 4), add_generation_prompt=generate)
    return "".join(text for text, _ in template.render(conversation))


@pytest.mark.parametrize("name", KNOWN)
def test_calls_are_read_as_the_template_writes_them(llama_source: Path, name: str) -> None:
    source = (llama_source / "templates" / f"{name}.jinja").read_text()
    template = ChatTemplate(source, begin_text="<BOS>", end_text="<EOS>")
    form = format_of(source) if template.traits.tools else OURS
    calls = (("write", WRITE),) if name in ONE_CALL else (("write", WRITE), ("look", LOOK))
    prompt = _render(template, [ASK], generate=True)
    whole = _render(template, [ASK, _turn(*calls)], generate=False)
    start = next((at for at, (one, other) in enumerate(zip(prompt, whole, strict=False)) if one != other), len(prompt))
    if start < len(prompt) and whole.rfind("<", 0, start) > whole.rfind(">", 0, start):
        start = whole.rfind("<", 0, start)  # a turn of the past begins otherwise: with its first mark
    prompt_end = prompt if name in OPENS_REASONING_IN_THE_PROMPT_ALONE else whole[:start]
    reply = read_reply(form, whole[start:], tools=TOOLS, prompt_end=prompt_end[-400:], sizes=(3,))
    assert [(called, json.loads(arguments)) for called, arguments in reply.calls] == list(calls)
    assert not reply.note
    assert "write" not in reply.text and "look" not in reply.text
    if "Word-thought." in whole:
        assert reply.reasoning == "Word-thought."
