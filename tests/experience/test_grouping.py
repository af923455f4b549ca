"""Requests land in the session that they belong to: on what real clients sent, and on any interleaving of conversations."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from daemon.experience.reader import Reader
from daemon.experience.sessions.grouping import SessionMatch, identify
from daemon.experience.sessions.memory import SessionIndex
from daemon.experience.sessions.placing import Placer, Recall
from daemon.experience.store import Store
from daemon.gateway.wires import chat
from daemon.gateway.wires.messages import request as messages
from daemon.gateway.wires.responses import request as responses
from daemon.records import JSONObject, Message, Status, Step, TurnKind
from tests.experience.make import assistant, inference, system, user

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


def _capture(name: str) -> tuple[dict[str, str], JSONObject, list[Message]]:
    request = json.loads((CAPTURES / f"{name}.json").read_text())
    headers = {key.lower(): value for key, value in request["headers"]}
    body = cast(JSONObject, request["body"])
    return headers, body, cast("list[Message]", body.get("messages", []))


def _send(
    store: Store, messages: Sequence[Message], reply: str | Message, explicit: str | None = None, request: JSONObject | None = None
) -> SessionMatch:
    """One request as the gateway takes it: placed, answered, stored."""
    match = store.resolve_session("default", explicit, messages, request)
    store.append(inference(messages, reply, session=match.session, kind=match.kind, request=request, lineage=match.lineage)).result(10)
    return match


def _replay(store: Store, name: str, reply: Message) -> SessionMatch:
    headers, body, messages = _capture(name)
    return _send(store, messages, reply, identify(headers, body), {name: value for name, value in body.items() if name != "messages"})


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("pi-min-01", None),
        ("pi-compat-01", "01a2282d-4f8d-7069-a1db-00fa991e1557"),
        ("opencode-02", "ses_dd7cef243ffetAe1zFCKvhwhEK"),
        ("aider-01", "proj-aider-1"),
        ("codex-01", "01a22832-f8aa-70d1-b347-dcb10ab059e3"),
        ("claude-01", "c83ffdc0-5d58-446e-8c0f-0d1e154b63ab"),
        ("cline-01", None),
    ],
)
def test_the_session_that_a_client_names(name: str, session: str | None) -> None:
    headers, body, _ = _capture(name)
    assert identify(headers, body) == session


def test_a_key_that_names_a_session_is_kept_as_its_hash() -> None:
    key = "ghp_" + "a1B2c3D4e5" * 4
    named = [identify({"x-session-id": key}, {}), identify({}, {"prompt_cache_key": key})]
    assert named[0] == named[1] and named[0] is not None and named[0].startswith("secret~")
    assert "a1B2c3D4e5" not in named[0]
    assert identify({"x-session-id": key[:-1] + "Z"}, {}) != named[0]


def test_the_order_in_which_names_count() -> None:
    body: JSONObject = {"prompt_cache_key": "cache", "metadata": {"user_id": '{"session_id": "claude"}'}}
    assert identify({"x-session-affinity": "c", "session_id": "b", "x-reef-tag-session": "a"}, body) == "a"
    assert identify({"thread-id": "t"}, body) == "t"
    assert identify({}, body) == "cache"
    assert identify({}, {"metadata": body["metadata"]}) == "claude"
    assert identify({}, {"metadata": {"user_id": "somebody"}}) is None
    assert identify({"x-session-id": "  "}, {"metadata": None, "prompt_cache_key": 7}) is None
    long = identify({"x-session-id": "x" * 5000}, {})
    assert long is not None and len(long) < 200


@pytest.mark.parametrize("client", ["pi-min", "cline", "qwen", "continue", "pi-compat"])
def test_a_clients_second_turn_joins_its_first(store: Store, client: str) -> None:
    """The reply is what the client sends back of it; clients without a session id are found by it."""
    _, _, messages = _capture(f"{client}-02")
    reply = next(message for message in messages if message.get("role") == "assistant")
    first = _replay(store, f"{client}-01", reply)
    second = _replay(store, f"{client}-02", assistant("done"))
    assert first.is_new and not second.is_new
    assert second.session == first.session
    assert second.kind is TurnKind.TURN


def test_title_commit_and_summary_calls_are_no_turns(store: Store, reader: Reader) -> None:
    title = _replay(store, "opencode-01", assistant("Listing files"))
    turn = _replay(store, "opencode-02", assistant("hello"))
    assert (title.kind, turn.kind, turn.session) == (TurnKind.ASIDE, TurnKind.TURN, title.session)
    assert reader.session(title.session).summary.turns == 1
    answered = reader.session(title.session).summary.last_receipt
    assert _replay(store, "opencode-01", assistant("Listing files, again")).kind is TurnKind.ASIDE
    assert reader.session(title.session).summary.last_receipt == answered, "whoever judges the last answer means no title"
    assert reader.session(title.session).summary.title.startswith("List the files") or reader.session(title.session).summary.title
    edit, commit = _replay(store, "aider-01", assistant("Here it is.")), _replay(store, "aider-02", assistant("feat: hello"))
    assert (edit.kind, commit.kind, commit.session) == (TurnKind.TURN, TurnKind.ASIDE, edit.session)
    assert _replay(store, "pi-compact-05", assistant("summary")).kind is TurnKind.ASIDE


def test_asides_without_a_session_of_their_own_are_found_by_what_they_quote(store: Store) -> None:
    question, edit = (
        user("Add a hello function to a.py\n\nTo suggest changes, return the whole file."),
        "Here it is: a function that says hello.",
    )
    first = _send(store, [system("You are an expert developer."), question], edit)
    commit = [
        system("You are an expert software engineer that generates concise, one-line Git commit messages"),
        user(f"USER: Add a hello function to a.py\n\nASSISTANT: {edit}\n\n+def hello():"),
    ]
    found = _send(store, commit, "feat: hello")
    assert (found.session, found.kind) == (first.session, TurnKind.ASIDE)
    summary = [
        system("You are a context summarization assistant."),
        user(f"<conversation>\n[User]: Add a hello function to a.py\n[Assistant]: {edit}\n</conversation>"),
    ]
    assert _send(store, summary, "# Goal").session == first.session
    # what nobody said before is a program's own business
    other = [commit[0], user("diff --git a/b.c b/b.c")]
    assert _send(store, other, "fix: b").kind is TurnKind.TURN


def test_a_summary_asked_for_at_the_end_of_a_conversation_is_no_turn(store: Store, reader: Reader) -> None:
    """Claude Code and codex send the whole conversation along, tools and all."""
    tools: JSONObject = {"tools": [{"type": "function"}]}
    opening = [system("s"), user("q")]
    _send(store, opening, "a", explicit="s1", request=tools)
    asked = user("Your task is to create a detailed summary of the conversation so far, paying close attention to…")
    whole = [*opening, assistant("a"), asked]
    summary = _send(store, whole, "1. Primary request: the user wants q answered.\n2. Done.", explicit="s1", request=tools)
    assert summary.kind is TurnKind.ASIDE
    shortened = [system("s"), user("Goes on after:\n1. Primary request: the user wants q answered.\n2. Done."), user("and now r")]
    match = _send(store, shortened, "b", explicit="s1", request=tools)
    first = reader.session("s1").turns[0].inference.id
    assert (match.kind, match.lineage.step, match.lineage.follows) == (TurnKind.TURN, Step.COMPACTION, first)


def test_a_summary_behind_the_users_own_messages_is_a_compaction(store: Store, reader: Reader) -> None:
    """codex keeps what the user said and puts the summary after it."""
    _send(store, [system("s"), user("q")], "a", explicit="s1")
    receipt = reader.session("s1").summary.last_receipt
    summary = user("Another language model started to solve this problem and produced a summary of its thinking: it is a.")
    match = _send(store, [system("s"), user("q"), summary], "b", explicit="s1")
    assert (match.lineage.step, match.lineage.follows) == (Step.COMPACTION, receipt)
    # a message more after a reply that got lost is none
    _send(store, [system("s"), user("r")], "a", explicit="s2")
    assert _send(store, [system("s"), user("r"), user("hello?")], "b", explicit="s2").lineage.step is Step.CONTINUE


def test_a_program_that_writes_commit_messages_makes_turns(store: Store) -> None:
    prompt = [system("You generate concise git commit messages."), user("diff --git a b")]
    assert _send(store, prompt, "fix: a").kind is TurnKind.TURN
    assert _send(store, prompt, "fix: b", explicit="mine").kind is TurnKind.TURN


def test_the_same_question_again_is_a_new_session_unless_the_first_failed(store: Store) -> None:
    first = _send(store, [user("q")], "a")
    assert _send(store, [user("q")], "a").session != first.session
    match = store.resolve_session("default", None, [user("other")])
    failed = inference([user("other")], "", session=match.session, status=Status.ERROR, created_at=4e9)
    store.append(failed).result(10)
    assert store.resolve_session("default", None, [user("other")]).is_new  # long ago, or ahead of the clock
    again = inference([user("third")], "", session="s3", status=Status.ABORTED, created_at=time.time())
    store.append(again).result(10)
    retried = store.resolve_session("default", None, [user("third")])
    assert (retried.session, retried.lineage.step, retried.lineage.follows, retried.is_new) == ("s3", Step.RETRY, again.id, False)


def test_a_retry_inside_a_session_names_what_it_repeats(store: Store) -> None:
    record = inference([user("q")], "a", session="mine")
    store.append(record).result(10)
    match = store.resolve_session("default", "mine", [user("q")])
    assert (match.session, match.lineage.step, match.lineage.follows) == ("mine", Step.RETRY, record.id)
    assert store.resolve_session("default", "other", [user("q")]).lineage.step is Step.BEGIN


def test_tool_calls_that_we_issued_lead_home_after_a_compaction(store: Store) -> None:
    call: Message = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_a1", "function": {"name": "ls", "arguments": "{}"}}]}
    first = _send(store, [system("s"), user("q")], call)
    compacted: list[Message] = [system("s"), user("summary"), call, {"role": "tool", "tool_call_id": "call_a1", "content": "x"}]
    assert _send(store, compacted, "ok").session == first.session
    # an id that two sessions were given says nothing
    other = _send(store, [user("elsewhere")], call)
    assert other.session != first.session
    assert store.resolve_session("default", None, compacted[1:]).is_new


def test_forks_stay_in_their_session_and_scenarios_apart(store: Store) -> None:
    first = _send(store, [user("q")], "a")
    for follow in ("x", "y"):
        assert _send(store, [user("q"), assistant("a"), user(follow)], follow).session == first.session
    assert store.resolve_session("pi", None, [user("q"), assistant("a"), user("x")]).is_new
    assert store.resolve_session("default", None, [user("q"), assistant("not ours"), user("x")]).is_new


def test_a_client_that_rewrites_its_history_stays_in_its_session(store: Store) -> None:
    """aider puts its reminder only behind the latest question; others write the time into the system text."""
    reply = "Here is what I would change in that file, line by line, with the reasons."
    first = _send(store, [system("It is 10:01."), user("Change it.\n\nAnswer in diffs.")], reply)
    second = _send(store, [system("It is 10:02."), user("Change it."), assistant(reply), user("More.\n\nAnswer in diffs.")], "short")
    assert (second.session, second.lineage.step, second.lineage.added) == (first.session, Step.CONTINUE, 3)
    # a reply that two sessions got says nothing
    other = _send(store, [user("elsewhere")], reply)
    assert other.session != first.session
    assert store.resolve_session("default", None, [user("x"), assistant(reply), user("y")]).is_new


def test_old_results_cut_out_of_a_history_are_a_compaction(store: Store, reader: Reader) -> None:
    """opencode clears the output of earlier tools and sends the rest as it was."""
    history: list[Message] = [system("s"), user("q")]
    receipts = []
    for number in range(3):
        function = {"name": "read", "arguments": f'{{"line": {number}}}'}
        call: Message = {"role": "assistant", "content": "", "tool_calls": [{"id": f"call_read{number}abc", "function": function}]}
        match = _send(store, history, call, explicit="s1")
        assert match.lineage.step is (Step.CONTINUE if number else Step.BEGIN)
        receipts.append(reader.session("s1").summary.last_receipt)
        history = [*history, call, {"role": "tool", "tool_call_id": f"call_read{number}abc", "content": f"line {number} " * 50}]
    history[3] = {**history[3], "content": "[Old tool result content cleared]"}
    match = _send(store, history, "done", explicit="s1")
    assert (match.lineage.step, match.lineage.follows) == (Step.COMPACTION, receipts[-1])


def test_a_reply_that_the_user_changed_is_gone_on_from(store: Store) -> None:
    first = _send(store, [user("q")], "The answer is 41.", explicit="s1")
    match = _send(store, [user("q"), assistant("The answer is 42."), user("why?")], "because", explicit="s1")
    assert match.lineage.step is Step.CONTINUE and not match.lineage.echoed and first.is_new


def test_a_second_conversation_under_one_id_begins_anew(store: Store) -> None:
    """A subagent, or /clear: it goes on from nothing, and is no compaction."""
    _send(store, [system("main"), user("q")], "a", explicit="s1")
    match = _send(store, [system("You search files."), user("find x")], "b", explicit="s1")
    assert (match.lineage.step, match.lineage.follows, match.is_new) == (Step.BEGIN, "", False)


def test_ids_that_any_server_gives_lead_nowhere(store: Store) -> None:
    """`call_1` names a call in every conversation of some servers."""
    call: Message = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "function": {"name": "ls", "arguments": "{}"}}]}
    result: Message = {"role": "tool", "tool_call_id": "call_1", "content": "x"}
    one = _send(store, [user("one")], call)
    store._placer.forget()
    two = _send(store, [user("two")], call)
    assert _send(store, [user("one"), call, result], "done").session == one.session
    assert _send(store, [user("two"), call, result], "done").session == two.session


WIRES = {"/v1/chat/completions": chat.parse, "/v1/responses": responses.parse, "/v1/messages": messages.parse}
CONVERSATIONS = (
    "claude",
    "claude-tui-full-03",
    "cline",
    "codex",
    "codex-oss-lmstudio-04",
    "continue",
    "opencode-02",
    "opencode-responses-02",
    "pi-anthropic",
    "pi-compat",
    "pi-json",
    "pi-min",
    "pi-old-0.73.1",
    "pi-responses",
    "qwen",
)


@pytest.mark.parametrize("named", [True, False], ids=["with its headers", "without"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_two_turns_of_every_client_are_one_session_on_every_wire(name: str, named: bool) -> None:
    """Without its headers and fields a client is known by what it sends back."""
    placer = Placer(SessionIndex(), Recall(Path("never opened")))
    first = name if name[-2:].isdigit() else f"{name}-01"
    second = f"{first[:-2]}{int(first[-2:]) + 1:02d}"
    calls, found = [], []
    for capture in (first, second):
        request = json.loads((CAPTURES / f"{capture}.json").read_text())
        call = WIRES[request["path"]](request["body"])
        explicit = identify({key.lower(): value for key, value in request["headers"]}, call.request) if named else None
        found.append(placer.place("default", explicit, call.messages, call.request, 0.0))
        calls.append(call)
        if capture == first:
            reply = next(message for message in WIRES[request["path"]](_body(second)).messages if message.get("role") == "assistant")
            record = inference(call.messages, reply, session=found[0].session, request=call.request, lineage=found[0].lineage)
            placer.add(record)
    assert found[1].session == found[0].session and found[0].is_new
    assert (found[1].kind, found[1].lineage.step, found[1].lineage.follows) == (TurnKind.TURN, Step.CONTINUE, record.id)
    assert all(message["role"] == "tool" for message in calls[1].messages[found[1].lineage.added :])


def _tui(name: str, first: str = "", **headers: str) -> tuple[str | None, list[Message], JSONObject]:
    """What codex's terminal sent, and the session that it names; `first`: with these words in the place of the user's."""
    captured = json.loads(
        (CAPTURES / f"{name}.json").read_text().replace("Which colour is in notes.txt?", first or "Which colour is in notes.txt?")
    )
    call = responses.parse(captured["body"])
    return identify({**dict(captured["headers"]), **headers}, call.request), list(call.messages), call.request


def test_codex_asks_for_a_title_in_a_thread_of_its_own_which_is_an_aside_of_the_session_that_it_quotes(
    store: Store, reader: Reader
) -> None:
    """While the first question still waits for its answer."""
    explicit, asked, request = _tui("codex-tui-01")
    session, title = store.resolve_session("default", explicit, asked, request), _tui("codex-tui-02")
    assert (session.session, session.kind, title[0]) == (explicit, TurnKind.TURN, None)
    assert (match := _send(store, title[1], '{"title": "Find the colour"}', title[0], title[2])).session == explicit
    assert match.kind is TurnKind.ASIDE
    _send(store, asked, "Teal.", explicit, request)
    [summary] = reader.sessions()
    assert (summary.id, summary.turns, summary.asides, summary.title) == (explicit, 1, 1, "Which colour is in notes.txt?")
    assert store.resolve_session("default", title[0], title[1], title[2]).session == explicit, "asked again"


@pytest.mark.parametrize("words", ["ok", "Zähle die Dateien.\n\n" + "Alle! " * 400], ids=["short", "long"])
def test_a_title_is_found_by_the_whole_question_and_the_newest_session_counts(store: Store, words: str) -> None:
    written = json.dumps(words)[1:-1]
    _, asked, request = _tui("codex-tui-01", written)
    for session in ("older", "newer"):
        store.resolve_session("default", session, asked, request)
    store.resolve_session("default", "another", [user(f"{words} please")], request)
    store.resolve_session("elsewhere", "elsewhere", asked, request)
    title = _tui("codex-tui-02", written)
    assert store.resolve_session("default", *title).session == "newer"


def test_a_title_of_words_that_nobody_said_is_no_turn_and_joins_nothing(store: Store) -> None:
    store.resolve_session("default", "other", [user("Something else.")], {})
    match = store.resolve_session("default", *_tui("codex-tui-02"))
    assert match.is_new and match.session != "other" and match.kind is TurnKind.ASIDE


def test_a_title_stays_in_the_session_that_a_person_names(store: Store) -> None:
    explicit, messages, request = _tui("codex-tui-02", **{"x-reef-tag-session": "mine"})
    match = store.resolve_session("default", explicit, messages, request)
    assert (match.session, match.kind) == ("mine", TurnKind.ASIDE)


@pytest.mark.parametrize("told", ['{"thread_source": "user", "cwd": "/thread_title"}', "thread_title", '["thread_title"]', 7, None])
def test_what_only_looks_like_codexs_title_names_its_session_as_ever(told: object) -> None:
    assert identify({"session-id": "mine"}, cast(JSONObject, {"client_metadata": {"x-codex-turn-metadata": told}})) == "mine"
    assert identify({"session-id": "mine"}, {"client_metadata": "thread_title"}) == "mine"


def _body(name: str) -> JSONObject:
    return cast(JSONObject, json.loads((CAPTURES / f"{name}.json").read_text())["body"])


def test_a_full_memory_asks_the_database(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _send(store, [user("q0")], "a0")
    named = _send(store, [user("n")], "m", explicit="named")
    monkeypatch.setattr(store, "_placer", Placer(SessionIndex(capacity=4), Recall(store.path)))
    for number in range(1, 8):
        _send(store, [user(f"q{number}")], f"a{number}")
    match = store.resolve_session("default", None, [user("q0"), assistant("a0"), user("more")])
    assert (match.session, match.is_new) == (first.session, False)
    assert store.resolve_session("default", named.session, [user("z")]).is_new is False
    assert store.resolve_session("default", "never", [user("z")]).is_new is True


def test_a_title_goes_on_to_what_the_first_words_announce(store: Store, reader: Reader) -> None:
    store.append(inference([user("Write a message for:\n\na.py | 3 +-\n\n+ line")])).result(10)
    assert reader.sessions()[0].title == "Write a message for: a.py | 3 +-"


def test_a_long_history_that_is_not_known_is_looked_for_by_its_replies_and_not_in_all_that_is_stored(tmp_path: Path) -> None:
    history = [turn for number in range(40) for turn in (user(f"step {number}"), assistant(f"done {number}"))] + [user("and now?")]

    def steps(sessions: int) -> int:
        """Of SQLite's machine, in hundreds, to find out that no session holds this history."""
        store = Store.open(tmp_path / f"{sessions}.db")
        for receipt in [store.append(inference([user(f"task {n}")], "done", session=f"ses_{n}")) for n in range(sessions)]:
            receipt.result(10)
        recall = Recall(store.path)
        taken = [0]

        def count() -> int:
            taken[0] += 1
            return 0

        recall._open().set_progress_handler(count, 100)
        assert recall.owner("default", history) is None
        recall.close()
        store.close()
        return taken[0]

    assert steps(400) < steps(20) + 10
