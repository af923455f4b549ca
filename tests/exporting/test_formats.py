"""What is exported is as its format says, and read again it is the conversation that was held."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.exporting.conversation import Conversation, Exchange
from daemon.exporting.formats import FORMATS, problem
from daemon.exporting.messages import chat
from daemon.importing.conversation import ImportedSession, conversations, named
from daemon.importing.envelope import Envelope, judged, said
from daemon.importing.source import recognise
from daemon.records import JSON, Inference, JSONObject, Message, Report, Usage

_CALL_IDS = re.compile(r'"call_\w+"')
TOOL: JSONObject = {"type": "function", "function": {"name": "bash", "description": "Run it.", "parameters": {"type": "object"}}}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str | None, *calls: JSONObject, **more: JSON) -> Message:
    message: Message = {"role": "assistant", "content": text, **more}
    return {**message, "tool_calls": list(calls)} if calls else message


def call(number: int, command: str) -> JSONObject:
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps({"command": command}, ensure_ascii=False)},
    }


def inference(record: str, messages: tuple[Message, ...], reply: Message) -> Inference:
    return Inference(
        id=record,
        scenario="default",
        session="ses_1",
        created_at=1_700_000_000.5,
        release_id="r1",
        lora_id=None,
        model="m",
        wire="chat",
        messages=messages,
        effective_messages=None,
        reply=reply,
        finish_reason="stop",
        usage=Usage(9, 3, 2),
        request={"tools": [TOOL], "seed": 1},
        tags={"client": "pi"},
    )


def report(record: str, score: float | None = None, correction: str = "") -> Report:
    return Report(f"on-{record}", "default", 1.0, (record,), score, {"correction": correction} if correction else None)


def talk() -> Conversation:
    """A tool task, then a branch: an accepted and a corrected reply to the same request, and a rejected one."""
    start = ({"role": "system", "content": "be brief"}, user("list"))
    first = assistant("I look.", call(0, "ls"), reasoning_content="which folder?")
    second = (*start, first, {"role": "tool", "tool_call_id": "call_0", "content": "a.py"})
    branch = (*start, first, {"role": "tool", "tool_call_id": "call_0", "content": "nothing"})
    return Conversation(
        "default",
        "ses_1",
        (
            Exchange(inference("r0", start, first), first=0),
            Exchange(inference("r1", second, assistant("one file")), (report("r1", 1),), parent=0, first=1),
            Exchange(inference("r2", branch, assistant("hm")), (report("r2", -1),), parent=0, first=2),
            Exchange(inference("r3", branch, assistant("no file")), (report("r3", 0.5),), parent=0, first=2),
            Exchange(inference("r4", branch, assistant("none?")), (report("r4", -1, "There is none."),), parent=0, first=2),
        ),
    )


def lines(name: str, conversation: Conversation, *, good_only: bool = False) -> list[JSONObject]:
    found = list(FORMATS[name].lines(conversation, good_only))
    for line in found:
        assert problem(name, json.loads(json.dumps(line))) is None
    return found


def sessions(name: str, conversation: Conversation, *, good_only: bool = False) -> list[ImportedSession]:
    read = []
    for line in lines(name, conversation, good_only=good_only):
        for item in recognise(line):
            assert isinstance(item, ImportedSession)
            read.append(named(item))
    return read


def held(sessions: list[ImportedSession], *, reasoning: bool) -> Iterator[list[JSON]]:
    """Every request with its reply."""
    for session in sessions:
        for turn, prompt in zip(session.turns, conversations(session), strict=True):
            yield chat([*prompt, turn.reply], reasoning=reasoning)


def stored(conversation: Conversation, *, reasoning: bool) -> list[list[JSON]]:
    return [chat([*turn.inference.messages, turn.inference.reply], reasoning=reasoning) for turn in conversation.turns]


@pytest.mark.parametrize(("name", "reasoning"), [("openai", False), ("sharegpt", False), ("atif", True)])
def test_whole_conversations_come_back_as_they_were_held(name: str, reasoning: bool) -> None:
    read = sessions(name, talk())
    expected = stored(talk(), reasoning=reasoning)
    found = list(held(read, reasoning=reasoning))
    if name == "sharegpt":  # which has no ids of calls
        found, expected = json.loads(_CALL_IDS.sub('"call"', json.dumps([found, expected])))
    assert all(row in expected for row in found) and all(row in found for row in expected)
    assert {session.id for session in read} != {""} and all(session.tools for session in read)


def test_only_good_replies_are_there_to_be_learned() -> None:
    found = lines("openai", talk(), good_only=True)
    messages = [line["messages"] for line in found]
    assert all(isinstance(row, list) for row in messages)
    ends = [row[-1]["content"] for row in messages if isinstance(row, list) and isinstance(row[-1], dict)]
    assert ends == ["one file", "no file", "There is none."]
    assert '"weight": 0' in json.dumps(messages[0]) and '"weight"' not in json.dumps(
        messages[0][-1:] if isinstance(messages[0], list) else 0
    )
    [only] = sessions("openai", talk(), good_only=True)[0].turns
    assert only.reply == assistant("one file")


def test_judged_replies_come_back_with_their_judgement() -> None:
    read = sessions("kto", talk())
    found = [(session.turns[0].reply["content"], session.turns[0].score) for session in read]
    assert found == [("one file", 1), ("hm", -1), ("no file", 1), ("There is none.", 1), ("none?", -1)]
    assert [line["label"] for line in lines("kto", talk(), good_only=True)] == [True, True, True]


def test_pairs_are_corrections_and_better_over_worse_replies() -> None:
    found = [(line["chosen"], line["rejected"]) for line in lines("dpo", talk())]
    assert found == [
        ([assistant("There is none.")], [assistant("none?")]),
        ([assistant("no file")], [assistant("hm")]),
    ]
    assert [session.turns[0].feedback for session in sessions("dpo", talk())] == [
        {"correction": "There is none."},
        {"correction": "no file"},
    ]


def test_a_trajectory_says_what_each_step_cost_and_which_release_said_it() -> None:
    first = lines("atif", talk())[0]
    steps = first["steps"]
    assert isinstance(steps, list) and first["session_id"] == "ses_1"
    act = steps[2]
    assert isinstance(act, dict)
    assert act["metrics"] == {"prompt_tokens": 9, "completion_tokens": 3, "cached_tokens": 2}
    assert act["extra"] == {"reef": {"receipt": "r0", "release_id": "r1"}} and act["timestamp"] == "2023-11-14T22:13:20.500000+00:00"
    assert act["observation"] == {"results": [{"content": "a.py", "source_call_id": "call_0"}]}
    assert first["final_metrics"] == {"total_prompt_tokens": 18, "total_completion_tokens": 6, "total_cached_tokens": 4, "total_steps": 4}


def test_records_carry_everything_that_another_reef_needs() -> None:
    envelopes = [item for line in lines("records", talk()) for item in recognise(line)]
    assert all(isinstance(item, Envelope) for item in envelopes)
    read = [said(item.payload) for item in envelopes if isinstance(item, Envelope) and item.request_type == "inference"]
    assert [(item.messages, item.reply) for item in read if item is not None] == [
        (turn.inference.messages, turn.inference.reply) for turn in talk().turns
    ]
    assert read[0] is not None and read[0].request == {"tools": [TOOL], "seed": 1} and read[0].usage == Usage(9, 3, 2)
    opinions = [judged(item.payload) for item in envelopes if isinstance(item, Envelope) and item.request_type == "report"]
    assert [item.references for item in opinions if item is not None] == [("r1",), ("r2",), ("r3",), ("r4",)]


def test_images_go_where_a_format_has_a_place_for_them() -> None:
    picture: JSON = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked: Message = {"role": "user", "content": [{"type": "text", "text": "what is it?"}, picture]}
    shown = Conversation("default", "s", (Exchange(inference("r0", (asked,), assistant("a cat"))),))
    for name in ("openai", "atif"):
        [session] = sessions(name, shown)
        assert session.turns[0].added == (asked,)


def test_the_schemas_refuse_what_is_not_of_their_format() -> None:
    whole = {name: lines(name, talk())[0] for name in FORMATS}
    for name, line in whole.items():
        for other in whole:
            if other != name:
                assert problem(other, line) is not None, (name, other)
        for field in list(line):
            if field in ("messages", "conversations", "prompt", "completion", "label", "chosen", "rejected", "steps", "agent", "payload"):
                assert problem(name, {**line, field: 7}) is not None
                assert problem(name, {key: value for key, value in line.items() if key != field}) is not None
    steps = whole["atif"]["steps"]
    assert isinstance(steps, list) and isinstance(steps[0], dict)
    assert problem("atif", {**whole["atif"], "steps": [{**steps[0], "metrics": {}}]}) is not None  # of an agent's steps only


texts = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8)
replies = st.one_of(texts, st.lists(texts, min_size=1, max_size=2))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 6), texts, replies), min_size=1, max_size=7))
def test_any_session_survives_the_way_out_and_in(drawn: list[tuple[int, str, str | list[str]]]) -> None:
    turns: list[Exchange] = []
    seen: set[tuple[int | None, str]] = set()
    for number, (parent, asked, answer) in enumerate(drawn):
        before = parent if 0 <= parent < len(turns) else None
        if (before, asked) in seen:
            continue
        seen.add((before, asked))
        messages: tuple[Message, ...] = ()
        if before is not None:
            earlier = turns[before].inference
            messages = (*earlier.messages, earlier.reply)
            calls = earlier.reply.get("tool_calls")
            for made in calls if isinstance(calls, list) else []:
                assert isinstance(made, dict)
                messages = (*messages, {"role": "tool", "tool_call_id": made["id"], "content": "done"})
        reply = (
            assistant(answer)
            if isinstance(answer, str)
            else assistant(None, *(call(number * 10 + n, text) for n, text in enumerate(answer)))
        )
        turns.append(Exchange(inference(f"r{number}", (*messages, user(asked)), reply), parent=before, first=len(turns)))
    whole = Conversation("default", "ses_1", tuple(turns))
    for name in ("openai", "atif"):
        expected, found = stored(whole, reasoning=False), list(held(sessions(name, whole), reasoning=False))
        assert all(row in expected for row in found) and all(row in found for row in expected)
