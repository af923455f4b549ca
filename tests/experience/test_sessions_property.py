"""Whatever agents do at the same time, each request lands in its own session, behind the turn that it goes on from."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.experience.reader import Reader
from daemon.experience.sessions.memory import SessionIndex
from daemon.experience.sessions.placing import Placer, Recall
from daemon.experience.sessions.turns import linked
from daemon.experience.store import Store
from daemon.records import Inference, JSONObject, Lineage, Message, Step, TurnKind
from tests.experience.make import assistant, inference, system, user

NAMED, CALLING, PLAIN = "named", "calling", "plain"  # how a client's session is found: by its id, by our call ids, by what it resends
ACTIONS = ("ask", "ask", "ask", "retry", "fork", "compact")
_numbers = itertools.count()


@dataclass
class Client:
    """One agent with one conversation, and what it expects of the next request."""

    kind: str
    random: Random
    style: int
    name: str = field(default_factory=lambda: f"client-{next(_numbers)}")
    history: list[Message] = field(default_factory=lambda: [system("s")])
    points: list[tuple[list[Message], str]] = field(default_factory=list)  # the history behind each reply, and its receipt
    request: list[Message] = field(default_factory=list)
    latest: str = ""
    session: str = ""
    expected: tuple[Step, str] = (Step.BEGIN, "")

    @property
    def explicit(self) -> str | None:
        return self.name if self.kind == NAMED else None

    def act(self, action: str) -> None:
        if action == "retry" and (self.kind == NAMED or len(self.points) > 1) and self.request:
            self.expected = (Step.RETRY, self.latest)
            self.history = list(self.request)
            self.points.pop()
            return
        if action == "fork" and len(self.points) > 1:
            place = self.random.randrange(len(self.points) - 1)
            self.points = self.points[: place + 1]
            self.history = list(self.points[-1][0])
            self.expected = (Step.BRANCH, self.points[-1][1])
        elif action == "compact" and self.points and self.kind != PLAIN:
            kept = self.history[-1:] if self.kind == CALLING else []
            self.history = [system("s"), user(f"The conversation history before this point was compacted: {next(_numbers)}"), *kept]
            self.expected = (Step.COMPACTION, self.latest)
        else:
            self.expected = (Step.CONTINUE, self.points[-1][1]) if self.points else (Step.BEGIN, "")
        if self.kind == CALLING and self.points:
            call = next(iter(self.history[-1]["tool_calls"]))  # type: ignore[call-overload]
            self.history.append({"role": "tool", "tool_call_id": call["id"], "content": f"result {next(_numbers)}"})
        else:
            first = "the same question" if self.kind != PLAIN or self.style else "another question"
            self.history.append(user(f"more {next(_numbers)}" if self.points else first))
        self.request = list(self.history)

    def answered(self, receipt: str, reply: Message) -> None:
        self.latest = receipt
        self.history = [*self.request, _echo(reply, self.style)]
        self.points.append((list(self.history), receipt))

    def reply(self) -> Message:
        number = next(_numbers)
        if self.kind != CALLING:
            return assistant(f"reply {number}")
        function = {"name": "run", "arguments": f'{{"n": {number}}}'}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_x{number:09d}y", "type": "function", "function": function}],
        }


def _echo(reply: Message, style: int) -> Message:
    """Our reply, the way that different clients send it back."""
    calls = reply.get("tool_calls")
    if isinstance(calls, list) and style:
        spaced = [
            {**call, "function": {**call["function"], "arguments": call["function"]["arguments"].replace(": ", ":")}} for call in calls
        ]  # type: ignore[dict-item,index,union-attr,call-overload]
        return {**reply, "content": "", "tool_calls": spaced}  # type: ignore[dict-item]
    if style == 1 and not calls:
        return {"role": "assistant", "content": [{"type": "text", "text": reply["content"], "cache_control": {"type": "ephemeral"}}]}
    if style == 2 and not calls:
        return {"role": "assistant", "content": f"{reply['content']}\n", "reasoning_content": "dropped"}
    return reply


_clients = st.lists(st.tuples(st.sampled_from((NAMED, CALLING, PLAIN)), st.integers(0, 2)), min_size=1, max_size=5)


def _play(random: Random, clients: list[Client], placer: Placer, actions: list[str], keep: list[Inference] | None = None) -> None:
    for action in actions:
        client = random.choice(clients)
        client.act(action)
        request: JSONObject = {"tools": [{"type": "function"}]} if client.kind == CALLING else {}
        match = placer.place("default", client.explicit, client.request, request, 0.0)
        assert match.kind is TurnKind.TURN
        assert match.is_new == (not client.session), client.expected
        assert match.session == (client.session or match.session)
        assert (match.lineage.step, match.lineage.follows) == client.expected
        client.session = match.session
        record = inference(client.request, client.reply(), session=match.session, request=request, lineage=match.lineage)
        placer.add(record)
        if keep is not None:
            keep.append(record)
        client.answered(record.id, record.reply)
    sessions = [client.session for client in clients if client.session]
    assert len(set(sessions)) == len(sessions), "two conversations were taken for one"


@settings(max_examples=80, deadline=None)
@given(_clients, st.randoms(use_true_random=False), st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=40))
def test_any_interleaving_groups_as_it_was_generated(kinds: list[tuple[str, int]], random: Random, actions: list[str]) -> None:
    clients = [Client(kind, random, style) for kind, style in kinds]
    _play(random, clients, Placer(SessionIndex(), Recall(Path("never opened"))), actions)


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=25), st.integers(0, 2))
def test_what_was_decided_live_can_be_found_again_from_the_records(random: Random, actions: list[str], style: int) -> None:
    records: list[Inference] = []
    _play(random, [Client(NAMED, random, style)], Placer(SessionIndex(), Recall(Path("never opened"))), actions, records)
    again = linked([replace(record, lineage=Lineage()) for record in records], {})
    assert [record.lineage for record in again.inferences] == [record.lineage for record in records]


@pytest.mark.parametrize("style", [0, 1, 2])
def test_what_is_imported_is_placed_once_and_for_all_as_it_would_have_been_live(store: Store, reader: Reader, style: int) -> None:
    """In two parts, as a resumed import does; whoever looks at the session later need not place it again."""
    records: list[Inference] = []
    random = Random(style)
    _play(random, [Client(NAMED, random, style)], Placer(SessionIndex(), Recall(Path("never opened"))), [*ACTIONS * 4], records)
    bare = [replace(record, lineage=Lineage()) for record in records]
    for part in (bare[:9], bare[9:], bare):
        store.append_imported(part).result(10)
    stored = [turn.inference.lineage for turn in reader.session(records[0].session).turns]
    assert [(one.step, one.follows) for one in stored] == [(record.lineage.step, record.lineage.follows) for record in records]
    rows = reader.loader().inferences("ORDER BY i.sequence", ())
    assert len(rows) == len(records)
    fresh = linked([replace(row, lineage=Lineage()) for row in rows], {})
    assert reader.observed("1", ()) == {sequence: names for sequence, names in fresh.observed.items() if names}


def test_a_restart_between_any_two_turns_changes_no_session(tmp_path: Path) -> None:
    """Without the memory of before, the database tells; only that a request was sent before is not known any more."""
    random = Random(7)
    clients = [Client(kind, random, style) for style, kind in enumerate((NAMED, CALLING, PLAIN))]
    for _ in range(12):
        store = Store.open(tmp_path / "experience.db")
        for client in clients:
            client.act(random.choice(("ask", "fork")))
            match = store.resolve_session("default", client.explicit, client.request)
            assert (match.session, match.is_new) == (client.session or match.session, not client.session), client.kind
            assert (match.lineage.step, match.lineage.follows) == client.expected
            client.session = match.session
            record = inference(client.request, client.reply(), session=match.session, lineage=match.lineage)
            store.append(record).result(10)
            client.answered(record.id, record.reply)
        store.close()


def test_ten_thousand_sessions_at_once_stay_apart(tmp_path: Path) -> None:
    """All begin with the same question and get the same reply; a third name themselves."""
    placer = Placer(SessionIndex(), Recall(tmp_path / "none"))
    begun: list[tuple[str | None, str]] = []
    for number in range(10_000):
        explicit = f"s{number}" if number % 3 == 0 else None
        match = placer.place("default", explicit, [user("hello")], {}, 0.0)
        reply = "Hello! How can I help you today?" if explicit else f"Hello number {number}"
        placer.add(inference([user("hello")], reply, session=match.session, lineage=match.lineage, created_at=0.0))
        begun.append((explicit, match.session))
    assert len({session for _, session in begun}) == 10_000
    found = Counter[bool]()
    for number, (explicit, session) in enumerate(begun):
        reply = "Hello! How can I help you today?" if explicit else f"Hello number {number}"
        match = placer.place("default", explicit, [user("hello"), assistant(reply), user("go on")], {}, 1.0)
        found[match.session == session and match.lineage.step is Step.CONTINUE] += 1
    assert found == {True: 10_000}


def test_a_clock_that_goes_back_and_ids_that_come_twice_confuse_nothing(store: Store, reader: Reader) -> None:
    first = inference([user("one")], "a", session="s", created_at=2e9, lineage=Lineage(Step.BEGIN))
    store.append(first).result(10)
    match = store.resolve_session("default", "s", [user("one"), assistant("a"), user("two")])
    second = inference([user("one"), assistant("a"), user("two")], "b", session=match.session, lineage=match.lineage, created_at=1e9)
    assert store.append(second).result(10) == store.append(second).result(10), "the same record again is the same record"
    turns = reader.session("s").turns
    assert [(turn.inference.id, turn.inference.lineage.step, turn.added) for turn in turns] == [
        (first.id, Step.BEGIN, 0),
        (second.id, Step.CONTINUE, 2),
    ]
    with pytest.raises(Exception, match="taken"):
        store.append(replace(second, reply=assistant("other"))).result(10)
