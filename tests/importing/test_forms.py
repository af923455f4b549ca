"""What lies in files of other programs is recognised, and becomes the conversation that was held."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.errors import DataError
from daemon.importing.conversation import ImportedSession, conversations, from_messages, named
from daemon.importing.envelope import Envelope, said
from daemon.importing.source import recognise
from daemon.importing.transfer import from_json, sessions_from_json, to_json
from daemon.records import JSON, JSONObject, Message

SYSTEM: Message = {"role": "system", "content": "be brief"}
TOOL: JSONObject = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def one(value: JSON) -> ImportedSession:
    [session] = recognise(value)
    assert isinstance(session, ImportedSession)
    return session


def test_a_line_of_chat_is_a_turn_for_every_reply_and_keeps_tools() -> None:
    call: JSONObject = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    asked: Message = {"role": "assistant", "content": None, "tool_calls": [call]}
    result: Message = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}
    session = one({"messages": [SYSTEM, user("list"), asked, result, assistant("one file"), user("unanswered")], "tools": [TOOL]})
    assert session.tools == (TOOL,)
    assert [turn.reply for turn in session.turns] == [asked, assistant("one file")]
    assert list(conversations(session)) == [(SYSTEM, user("list")), (SYSTEM, user("list"), asked, result)]


def test_context_and_greetings_are_no_turns() -> None:
    session = one({"messages": [assistant("Hello!"), user("a"), {**assistant("b"), "weight": 0}, user("c"), assistant("d")]})
    assert [turn.reply for turn in session.turns] == [assistant("d")]
    assert list(conversations(session)) == [(assistant("Hello!"), user("a"), assistant("b"), user("c"))]


def test_calls_from_before_there_were_tools_are_read() -> None:
    old: JSONObject = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    session = one(
        {"messages": [user("x"), old, {"role": "function", "name": "f", "content": "1"}, assistant("y")], "functions": [{"name": "f"}]}
    )
    assert session.turns[0].reply["tool_calls"] == [{"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    assert session.turns[1].added[0]["role"] == "tool" and session.tools[0]["function"] == {"name": "f"}


def test_a_request_beside_its_response_gives_every_choice() -> None:
    choices: list[JSON] = [{"message": assistant("a"), "finish_reason": "stop"}, {"message": assistant("b"), "finish_reason": "length"}]
    response: JSONObject = {"model": "m", "created": 1700000000, "choices": choices, "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    for value in ({"request": {"messages": [user("q")]}, "response": response}, {"messages": [user("q")], "response": response}):
        session = one(value)
        assert [(turn.reply["content"], turn.finish_reason, turn.parent) for turn in session.turns] == [
            ("a", "stop", None),
            ("b", "length", None),
        ]
        assert session.turns[0].model == "m" and session.turns[0].created_at == 1700000000 and session.turns[0].usage.prompt_tokens == 7


def test_judged_lines_bring_their_feedback() -> None:
    good = one({"prompt": [user("q")], "completion": [assistant("a")], "label": True})
    assert good.turns[0].score == 1 and good.turns[0].reply == assistant("a")
    for value in (
        {"prompt": [user("q")], "chosen": [assistant("better")], "rejected": [assistant("worse")]},
        {"chosen": [user("q"), assistant("better")], "rejected": [user("q"), assistant("worse")]},
        {"input": {"messages": [user("q")]}, "preferred_output": [assistant("better")], "non_preferred_output": [assistant("worse")]},
        {"prompt": "q", "chosen": "better", "rejected": "worse"},
    ):
        [turn] = one(value).turns
        assert (turn.added, turn.reply, turn.score, turn.feedback) == ((user("q"),), assistant("worse"), -1, {"correction": "better"})


def test_sharegpt_gives_calls_ids_and_joins_what_belongs_to_one_message() -> None:
    session = one(
        {
            "system": "be brief",
            "tools": '[{"name": "bash", "parameters": {}}]',
            "conversations": [
                {"from": "human", "value": "list"},
                {"from": "gpt", "value": "I look."},
                {"from": "function_call", "value": '[{"name": "bash", "arguments": {"command": "ls"}}, {"name": "bash", "arguments": {}}]'},
                {"from": "observation", "value": "a.py"},
                {"from": "observation", "value": "again"},
                {"from": "gpt", "value": "one file"},
            ],
        }
    )
    first, second = session.turns
    calls = first.reply["tool_calls"]
    assert first.reply["content"] == "I look." and isinstance(calls, list) and len(calls) == 2
    assert [message["tool_call_id"] for message in second.added] == [made["id"] for made in calls if isinstance(made, dict)]
    assert len({message["tool_call_id"] for message in second.added}) == 2
    assert session.tools[0] == {"type": "function", "function": {"name": "bash", "parameters": {}}}


def trajectory(steps: list[JSON], **more: JSON) -> JSONObject:
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": "run-1",
        "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": steps,
        **more,
    }


def test_a_trajectory_gives_turns_observations_and_subagents() -> None:
    act: JSONObject = {
        "step_id": 3,
        "source": "agent",
        "timestamp": "2026-10-05T12:00:00Z",
        "message": "",
        "reasoning_content": "look first",
        "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}],
        "observation": {"results": [{"source_call_id": "c1", "content": [{"type": "text", "text": "a.py"}]}]},
        "metrics": {"prompt_tokens": 10, "completion_tokens": 3, "cached_tokens": 4},
    }
    end: JSONObject = {"step_id": 4, "source": "agent", "message": "done"}
    child = trajectory(
        [{"step_id": 1, "source": "user", "message": "sub"}, {"step_id": 2, "source": "agent", "message": "ok"}], trajectory_id="t2"
    )
    steps: list[JSON] = [
        {"step_id": 1, "source": "system", "message": "be brief"},
        {"step_id": 2, "source": "user", "message": "go"},
        act,
        end,
    ]
    main, sub = recognise(trajectory(steps, subagent_trajectories=[child]))
    assert isinstance(main, ImportedSession) and isinstance(sub, ImportedSession)
    assert (main.id, sub.id) == ("run-1", "run-1/t2") and main.tags["agent"] == "a"
    first, last = main.turns
    assert first.created_at == 1791201600 and first.model == "m" and first.usage.cached_tokens == 4
    assert first.reply["reasoning_content"] == "look first" and first.finish_reason == "tool_calls"
    assert last.added == ({"role": "tool", "content": [{"type": "text", "text": "a.py"}], "tool_call_id": "c1"},)


def test_pictures_and_sounds_beside_a_trajectory_are_named_and_not_read() -> None:
    def part(kind: str, path: str) -> JSON:
        return {"type": kind, "source": {"media_type": f"{kind}/x", "path": path}}

    seen: list[JSON] = [part("image", "/etc/passwd"), part("audio", "a.wav"), part("image", "data:image/png;base64,AA")]
    steps: list[JSON] = [{"step_id": 1, "source": "user", "message": seen}, {"step_id": 2, "source": "agent", "message": "ok"}]
    content = one({**trajectory(steps), "schema_version": "ATIF-v1.8"}).turns[0].added[0]["content"]
    assert content == [
        {"type": "text", "text": "[image /etc/passwd]"},
        {"type": "text", "text": "[audio a.wav]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]


def test_dispatches_and_copied_steps_are_context() -> None:
    steps: list[JSON] = [
        {"step_id": 1, "source": "user", "message": "go"},
        {"step_id": 2, "source": "agent", "message": "copied", "is_copied_context": True},
        {"step_id": 3, "source": "agent", "message": "dispatched", "llm_call_count": 0},
        {"step_id": 4, "source": "agent", "message": "said"},
    ]
    session = one(trajectory(steps))
    assert [turn.reply["content"] for turn in session.turns] == ["said"] and len(session.turns[0].added) == 3


@pytest.mark.parametrize(
    "value",
    [
        [],
        "text",
        {"text": "x"},
        {"messages": []},
        {"messages": [user("x")]},
        {"messages": [{"role": "robot", "content": "x"}, assistant("y")]},
        {"messages": [{"role": "user", "content": 7}, assistant("y")]},
        {"messages": [user("x"), {"role": "assistant", "tool_calls": [{"function": {}}]}]},
        {"messages": [user("x")], "response": {"choices": []}},
        {"prompt": [user("q")], "completion": [user("no reply")], "label": True},
        {"prompt": [user("q")], "completion": [assistant("a")], "label": "yes"},
        {"conversations": [{"from": "alien", "value": "x"}]},
        {"conversations": [{"from": "human", "value": "x"}, {"from": "function_call", "value": "no json"}]},
        {"schema_version": "ATIF-v2.0", "agent": {}, "steps": []},
        {"agent_record_id": "x", "request_type": "inference", "payload": []},
        trajectory([{"step_id": 1, "source": "user", "message": "x"}]),
        trajectory([{"step_id": 1, "source": "agent", "message": "x", "tool_calls": [{"function_name": "f"}]}]),
    ],
)
def test_what_is_not_whole_is_refused_with_a_reason(value: JSON) -> None:
    with pytest.raises(DataError) as refused:
        recognise(value)
    assert refused.value.message


def test_ids_come_from_the_content_and_a_longer_conversation_only_adds_turns() -> None:
    messages = [user("a"), assistant("b"), user("c"), assistant("d")]
    whole, begun = named(from_messages(messages)), named(from_messages(messages[:2]))
    assert whole.id == begun.id and whole.turns[0].id == begun.turns[0].id
    assert whole.turns[0].id.startswith("rec_i") and len({turn.id for turn in whole.turns}) == 2
    other = named(from_messages([user("a"), assistant("another reply")]))
    assert other.id != whole.id


def test_an_envelope_keeps_what_the_request_had_beside_the_conversation() -> None:
    [envelope] = recognise(
        {
            "agent_record_id": "r",
            "request_type": "inference",
            "payload": {
                "messages": [user("x")],
                "response": {"choices": [{"message": assistant("4")}]},
                "temperature": 0.5,
                "training": {"a": 1},
            },
        }
    )
    assert isinstance(envelope, Envelope)
    found = said(envelope.payload)
    assert found is not None and found.reply == assistant("4") and found.request == {"temperature": 0.5, "training": {"a": 1}}
    for unreadable in ({}, {"messages": []}, {"messages": [user("x")]}, {"messages": [user("x")], "reply": {"content": ""}}):
        assert said(unreadable) is None


texts = st.text(max_size=12)
turns = st.lists(st.tuples(st.integers(-1, 8), texts, texts), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None)
@given(turns)
def test_any_tree_of_turns_travels_whole(drawn: list[tuple[int, str, str]]) -> None:
    given_turns: list[JSON] = []
    for number, (parent, asked, said_text) in enumerate(drawn):
        turn: JSONObject = {"added": [user(asked)], "reply": assistant(said_text)}
        if 0 <= parent < number:
            turn["parent"] = parent
        given_turns.append(turn)
    session = named(from_json({"turns": given_turns}, "session"))
    assert from_json(to_json(session), "session") == session
    assert named(session) == session
    prompts = list(conversations(session))
    assert len({turn.id for turn in session.turns}) == len(session.turns)
    for turn, prompt in zip(session.turns, prompts, strict=True):
        assert prompt[-1] == turn.added[-1]
        assert len(prompt) == 1 if turn.parent is None else prompt[:-2] == prompts[turn.parent]


@pytest.mark.parametrize(
    ("value", "named_field"),
    [
        ({"turns": []}, "s.turns"),
        ({"turns": [{"added": [], "reply": assistant("x"), "parent": 0}]}, "s.turns[0].parent"),
        ({"turns": [{"added": [], "reply": user("x")}]}, "s.turns[0].reply"),
        ({"turns": [{"added": [{"role": "user", "content": 1}], "reply": assistant("x")}]}, "s.turns[0].added"),
        ({"turns": [{"added": [], "reply": assistant("x"), "score": True}]}, "s.turns[0].score"),
        ({"turns": [{"added": [], "reply": assistant("x"), "created_at": 1e300}]}, "s.turns[0].created_at"),
        ({"turns": [{"added": [], "reply": assistant("x")}], "tags": {"a": 1}}, "s.tags"),
        ({"turns": [{"added": [], "reply": assistant("x"), "id": 7}]}, "s.turns[0].id"),
    ],
)
def test_a_session_with_a_bad_field_is_refused_by_its_name(value: JSON, named_field: str) -> None:
    with pytest.raises(DataError, match=f"^'{named_field.replace('[', '.').replace(']', '.')}"):
        from_json(value, "s")


def test_sessions_that_repeat_their_history_too_often_at_once_are_refused() -> None:
    turns: list[JSON] = [{"added": [], "reply": assistant("x"), **({"parent": number - 1} if number else {})} for number in range(2000)]
    assert len(sessions_from_json([{"turns": turns}])[0].turns) == 2000
    with pytest.raises(DataError, match="at once"):
        sessions_from_json([{"turns": turns}] * 3)
    turns[0] = {"added": [user("y")] * 9000, "reply": assistant("x")}
    with pytest.raises(DataError, match="10,000 messages"):
        sessions_from_json([{"turns": turns}])
