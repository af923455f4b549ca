"""The embedded engine's parts, without a model: text, template, slots, LoRAs, machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.engine.llama.loras import LIMIT, LoadedLoRAs
from daemon.engine.llama.model import LoRAHandle
from daemon.engine.llama.slots import Slots, common_prefix
from daemon.engine.llama.template import ChatTemplate
from daemon.engine.llama.text import TextStream
from daemon.errors import BadRequest, DataError, EngineError, Unsupported
from daemon.records import JSONObject


def test_text_never_splits_a_character_and_never_shows_a_stop_string() -> None:
    data = "für 🐚 alle END nicht".encode()
    for size in (1, 2, 3, 5):
        stream, shown = TextStream(("END", "nie")), ""
        for start in range(0, len(data), size):
            shown += stream.push(data[start : start + size])
            assert "\ufffd" not in shown
            if stream.stopped:
                break
        assert shown == "für 🐚 alle "
    stream = TextStream(("<end>",))
    assert stream.push(b"a <en") == "a "
    assert stream.push(b"try>") == "<entry>"
    assert stream.push("é".encode()[:1]) + stream.finish() == ""


def test_a_template_gets_what_templates_expect() -> None:
    template = ChatTemplate(
        "{%- for m in messages %}{{ m.role }}:{{ m.content }};{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments.x }}{% endif %}"
        "{%- endfor %}{{ tools | tojson if tools else '' }}{{ bos_token }}{{ strftime_now('%Y') | length }}",
        begin_text="<s>",
    )
    messages: list[JSONObject] = [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"x": 5}'}}]},
    ]
    assert template.render(messages, [{"n": "<&>"}]) == [('system:ab;assistant:;5[{"n": "<&>"}]<s>4', True)]
    assert template.knows_tools


def test_control_words_in_messages_are_kept_apart() -> None:
    template = ChatTemplate(None, control_texts=("<|im_start|>", "<|im_end|>"))
    pieces = template.render([{"role": "user", "content": "x<|im_end|>y \ue0a50\ue0a6"}], [])
    assert [text for text, special in pieces if not special] == ["<|im_end|>"]
    assert "".join(text for text, _ in pieces).startswith("<|im_start|>user\nx<|im_end|>y \ufffd0\ufffd<|im_end|>")


def test_a_control_word_in_the_name_of_a_tools_parameter_is_only_a_word() -> None:
    template = ChatTemplate("{{ tools | tojson }}", control_texts=("<|im_end|>",))
    pieces = template.render([{"role": "user", "content": "x"}], [{"properties": {"<|im_end|>": {"type": "string"}}}])
    assert [text for text, special in pieces if not special] == ["<|im_end|>"]


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no system role') }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ 'x' * 10000000000 }}",
        "{{ 9 ** 99999 }}",
        "{% for i in range(90000) %}{{ 'xxxxxxxxxx' * 1000 }}{% endfor %}",
        "{{ messages[0].content.missing.deeper }}",
    ],
)
def test_a_template_that_misbehaves_is_a_400(source: str) -> None:
    with pytest.raises(BadRequest):
        ChatTemplate(source).render([{"role": "user", "content": "a"}], [])


def test_arguments_that_are_nested_without_end_stay_the_text_they_are() -> None:
    call: JSONObject = {"function": {"name": "f", "arguments": "[" * 100_000}}
    pieces = ChatTemplate("{{ messages[0].tool_calls[0].function.arguments }}").render([{"role": "assistant", "tool_calls": [call]}], [])
    assert pieces == [("[" * 100_000, True)]


def test_a_template_that_never_ends_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.engine.llama.template._TIME_LIMIT_S", 0.3)
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(BadRequest, match="took more"):
        ChatTemplate(loop).render([{"role": "user", "content": "a"}], [])


def test_a_template_that_does_not_compile_is_a_sentence() -> None:
    with pytest.raises(DataError, match="template"):
        ChatTemplate("{% for %}")


def test_slots_prefer_what_they_hold_and_never_cross_loras() -> None:
    slots = Slots(0, 2)
    first = slots.take([1, 2, 3, 4], None)
    assert first is not None
    first[0].cells = [1, 2, 3, 4]
    slots.give_back(first[0])
    other = slots.take([1, 2, 3, 4, 5], "lora")
    assert other is not None and other[1] == 0 and other[0] is not first[0]
    again = slots.take([1, 2, 3, 9], None)
    assert again is not None and again[1] == 3 and again[0] is first[0]
    assert slots.take([1], None) is None
    assert common_prefix([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common_prefix([], [1]) == 0


class _Loader:
    def __init__(self) -> None:
        self.freed: list[int] = []
        self.count = 0

    def load_lora(self, path: Path) -> LoRAHandle:
        self.count += 1
        return LoRAHandle(self.count)

    def free_lora(self, lora: LoRAHandle) -> None:
        self.freed.append(lora)


def test_loras_in_use_stay_and_unused_ones_make_room() -> None:
    loader = _Loader()
    loras = LoadedLoRAs(loader)
    for index in range(LIMIT):
        loras.load(f"l{index}", Path("x"))
    loras.acquire("l0")
    loras.unload("l0")
    assert loader.freed == []
    loras.load("new", Path("x"))
    assert loader.freed == [2]  # the longest unused one
    loras.release("l0")
    assert loader.freed == [2, 1]
    with pytest.raises(EngineError):
        loras.acquire("l0")
    loras.load("l0", Path("x"))
    for name in loras.ids:
        loras.acquire(name)
    with pytest.raises(Unsupported):
        loras.load("too many", Path("x"))
