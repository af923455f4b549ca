"""What a conversation looks like on the responses wire, and the messages that it is here."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.errors import BadRequest
from daemon.gateway.steps import Piece
from daemon.gateway.wires.responses.output import Output
from daemon.gateway.wires.responses.request import Wanted, check_choice, parse, wanted_of
from daemon.records import JSON, JSONObject, Message

WEATHER: JSONObject = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}
PATCH: JSONObject = {"type": "custom", "name": "patch"}
CHAT_WEATHER: JSONObject = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}, "strict": True}}


def messages(given: JSON, **more: JSON) -> list[Message]:
    return list(parse({"model": "m", "input": given, **more}).messages)


def call(name: str, arguments: str, identity: str = "c1") -> JSONObject:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_text_and_instructions() -> None:
    assert messages("hi", instructions="Be brief.") == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert messages("hi", instructions="") == [{"role": "user", "content": "hi"}]
    as_items: JSON = [{"role": "developer", "content": "Be brief."}]
    assert messages("hi", instructions=as_items)[0] == {"role": "developer", "content": "Be brief."}


def test_the_items_of_one_reply_are_one_message() -> None:
    given: JSON = [
        {"role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Look it up."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Paris"}'},
        {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": '{"city":"Rome"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "rain"}]},
        {"type": "message", "role": "assistant", "content": "Sun and rain."},
    ]
    assert messages(given) == [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Look it up.",
            "tool_calls": [call("weather", '{"city":"Paris"}'), call("weather", '{"city":"Rome"}', "c2")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "c2", "content": "rain"},
        {"role": "assistant", "content": "Sun and rain."},
    ]


def test_two_replies_without_anything_between_stay_two() -> None:
    two: JSON = [{"role": "assistant", "content": "One."}, {"role": "assistant", "content": "Two."}, {"role": "user", "content": "x"}]
    assert [message["content"] for message in messages(two)] == ["One.", "Two.", "x"]
    ours: JSON = [
        {"type": "reasoning", "id": "rs_aaa_0", "summary": [{"type": "summary_text", "text": "a"}]},
        {"type": "message", "id": "msg_aaa_1", "role": "assistant", "content": "One."},
        {"type": "reasoning", "id": "rs_bbb_0", "summary": [{"type": "summary_text", "text": "b"}]},
        {"type": "message", "id": "msg_bbb_1", "role": "assistant", "content": "Two."},
    ]
    assert [message["reasoning_content"] for message in messages(ours)] == ["a", "b"]


def test_many_items_of_one_reply_do_not_take_the_square_of_their_time() -> None:
    thought: JSON = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x" * 600}]}
    text: JSON = {"type": "message", "role": "assistant", "content": "y" * 600}
    began = time.process_time()
    found = messages([thought, text] * 20_000)
    assert found == [{"role": "assistant", "content": "y" * 12_000_000, "reasoning_content": "x" * 12_000_000}]
    assert time.process_time() - began < 3


@pytest.mark.parametrize("encrypted", ["gAAAA", "reef:", "reef:§", "reef:/w==", None, 3])
def test_reasoning_that_cannot_be_read_is_left_out(encrypted: JSON) -> None:
    given: JSON = [{"role": "user", "content": "x"}, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": encrypted}]
    assert messages(given) == [{"role": "user", "content": "x"}]


def test_tools_that_are_no_functions_are_calls_like_others_once_they_are_history() -> None:
    given: JSON = [
        {"role": "user", "content": "x"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
        {"type": "local_shell_call", "call_id": "c2", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "c2", "output": {"exit_code": 0}},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "something_new", "content": 3},
    ]
    found = messages(given)
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "assistant", "tool"]
    assert found[1]["tool_calls"] == [call("apply_patch", '{"input": "*** Begin Patch"}')]
    assert found[3]["tool_calls"] == [call("local_shell", '{"type": "exec", "command": ["ls"]}', "c2")]
    assert found[4]["content"] == '{"exit_code": 0}'


def test_pictures_files_and_sound_are_parts_as_on_the_chat_wire() -> None:
    given: JSON = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "what?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            ],
        }
    ]
    assert messages(given)[0]["content"] == [
        {"type": "text", "text": "what?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("conversation", "conv_1"),
        ("prompt", {"id": "pmpt_1"}),
        ("background", True),
        ("input[0]", [{"type": "item_reference", "id": "msg_1"}]),
        ("input[0]", [{"type": "compaction", "encrypted_content": "gAAA"}]),
        ("input[0].content[0].file_id", [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]),
        ("input[0].content[0].file_url", [{"role": "user", "content": [{"type": "input_file", "file_url": "https://x"}]}]),
    ],
)
def test_what_would_have_to_be_stored_is_refused_in_words(field: str, value: JSON) -> None:
    with pytest.raises(BadRequest) as refused:
        parse({"model": "m", "input": "x", **{field.split("[")[0]: value}})
    assert refused.value.param == field and refused.value.hint


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input", None),
        ("input", []),
        ("input", 3),
        ("input[0]", ["hi"]),
        ("input[0].type", [{"content": "x"}]),
        ("input[0].type", [{"type": 3}]),
        ("input[0].role", [{"role": "tool", "content": "x"}]),
        ("input[0].role", [{"type": "message", "content": "x"}]),
        ("input[0].content", [{"role": "user", "content": 3}]),
        ("input[0].content[0]", [{"role": "user", "content": ["x"]}]),
        ("input[0].content[0].text", [{"role": "user", "content": [{"type": "input_text"}]}]),
        ("input[0].content[0].image_url", [{"role": "user", "content": [{"type": "input_image"}]}]),
        ("input[0].name", [{"type": "function_call", "call_id": "c", "arguments": "{}"}]),
        ("input[0].call_id", [{"type": "function_call", "name": "f", "arguments": "{}"}]),
        ("input[0].arguments", [{"type": "function_call", "name": "f", "call_id": "c", "arguments": {}}]),
        ("input[0].call_id", [{"type": "function_call_output", "output": "x"}]),
        ("input[0].summary", [{"type": "reasoning", "summary": "x"}]),
        ("instructions", 3),
        ("tools[0]", [3]),
        ("tools[0].name", [{"type": "function"}]),
        ("tools[0].parameters", [{"type": "function", "name": "f", "parameters": 3}]),
        ("tool_choice", "any"),
        ("tool_choice", {"type": "function", "name": "launch"}),
        ("tool_choice", {"type": "web_search"}),
        ("tool_choice", {"type": "custom", "name": "patch"}),
        ("tool_choice", {"type": "allowed_tools", "mode": "some", "tools": [{"type": "function", "name": "weather"}]}),
        ("tool_choice", {"type": 3}),
        ("text", "json"),
        ("text.format", {"format": {"type": "xml"}}),
        ("text.format.schema", {"format": {"type": "json_schema", "name": "n"}}),
        ("max_output_tokens", 0),
        ("temperature", 3),
        ("top_logprobs", 21),
        ("include", "all"),
        ("reasoning", "high"),
        ("parallel_tool_calls", 1),
        ("stream", "yes"),
        ("truncation", "middle"),
    ],
)
def test_what_is_asked_wrongly_is_named(field: str, value: JSON) -> None:
    body: JSONObject = {"model": "m", "input": "x", "tools": [WEATHER, PATCH]}
    with pytest.raises(BadRequest) as refused:
        check_choice(parse({**body, field.split("[")[0].split(".")[0]: value}))
    assert (refused.value.param or "").removeprefix("text.") in (field, field.removeprefix("text."))


def test_tools_and_the_choice_among_them() -> None:
    tools: JSON = [PATCH, WEATHER, {"type": "web_search"}, {"type": "namespace", "name": "n", "tools": [WEATHER]}]
    found = parse({"model": "m", "input": "x", "tools": tools})
    assert found.tools == (CHAT_WEATHER,) and found.tool_choice == "auto" and found.request["tools"] == tools
    named = parse({"model": "m", "input": "x", "tools": tools, "tool_choice": {"type": "function", "name": "weather"}})
    assert named.tool_choice == {"type": "function", "function": {"name": "weather"}}
    allowed: JSONObject = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "weather"}]}
    other: JSONObject = {"type": "function", "name": "other"}
    held = parse({"model": "m", "input": "x", "tools": [other, WEATHER], "tool_choice": allowed})
    assert held.tools == (CHAT_WEATHER,) and held.tool_choice == "required"
    none = parse({"model": "m", "input": "x", "tools": [other], "tool_choice": allowed})
    assert none.tools == () and none.tool_choice == "none"


def test_forms_effort_and_what_is_to_be_included() -> None:
    form: JSONObject = {"type": "json_schema", "name": "person", "schema": {"type": "object"}, "strict": True}
    body: JSONObject = {
        "model": "m",
        "input": "x",
        "text": {"format": form, "verbosity": "low"},
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs", "file_search_call.results"],
        "max_output_tokens": 7,
    }
    found = parse(body)
    assert found.response_format == {"type": "json_schema", "json_schema": {"name": "person", "schema": {"type": "object"}, "strict": True}}
    assert found.extra == {"reasoning_effort": "high", "verbosity": "low"} and found.max_tokens == 7 and found.top_logprobs == 0
    assert wanted_of(body) == Wanted(summary=True, encrypted=True, logprobs=True)
    assert wanted_of({"store": False}) == Wanted(encrypted=True) and wanted_of({}) == wanted_of({"store": True}) == Wanted()
    plain = parse({"model": "m", "input": "x", "text": {"format": {"type": "text"}}})
    assert plain.response_format is None and plain.extra == {} and plain.top_logprobs is None


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
REPLY = st.fixed_dictionaries(
    {"reasoning": st.just("") | TEXT, "text": st.just("") | TEXT, "calls": st.lists(st.tuples(TEXT, st.just("") | TEXT), max_size=3)}
)


@given(REPLY, st.booleans(), st.sampled_from(["all", "no ids", "no open reasoning"]))
@settings(max_examples=40, deadline=None)
def test_a_reply_that_is_sent_back_is_the_message_that_was_recorded(reply: dict[str, object], summary: bool, kept: str) -> None:
    """Else the session would break in two, and the whole prompt would be read again."""
    reasoning, text, calls = reply["reasoning"], reply["text"], reply["calls"]
    output = Output("06h2kw7kzwvxh6t6c50y14ra", Wanted(summary=summary, encrypted=True))
    recorded: Message = {"role": "assistant", "content": str(text)}
    if reasoning:
        recorded["reasoning_content"] = str(reasoning)
        output.take(Piece({"reasoning_content": str(reasoning)}))
    if text:
        output.take(Piece({"content": str(text)}))
    made: list[JSON] = []
    for index, (name, arguments) in enumerate(calls if isinstance(calls, list) else []):
        made.append(call(name, arguments, f"c{index}"))
        output.take(Piece({"tool_calls": [{"index": index, **call(name, arguments, f"c{index}")}]}))
    if made:
        recorded["tool_calls"] = made
    output.end(cut=False)
    sent: list[JSON] = []
    for item in output.items():
        assert isinstance(item, dict)
        if item["type"] != "reasoning" and kept == "no ids":
            item.pop("id")
        elif item["type"] == "reasoning" and kept == "no open reasoning":  # the AI SDK keeps only summaries
            item.pop("content", None)
        sent.append(item)
    before: JSONObject = {"role": "user", "content": "x"}
    assert messages([before, *sent, {"role": "user", "content": "y"}]) == [before, recorded, {"role": "user", "content": "y"}]
