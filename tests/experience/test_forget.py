"""What is forgotten is gone from every file, and nothing else is."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.errors import NotFound
from daemon.experience.check import check
from daemon.experience.reader import Reader
from daemon.experience.removal import forget
from daemon.experience.search.file import index_path
from daemon.experience.store import Store
from daemon.records import Inference, Message, Report, TokenTrace
from tests.experience.make import assistant, inference, report, system, user

RULES = system("You are a helpful assistant. " * 30)
TOOLS = [{"type": "function", "function": {"name": "read", "description": "Reads a file. " * 60}}]


def _turns(session: str, words: str, count: int) -> list[Inference]:
    """A conversation whose own texts all hold `words`; some are long enough for a blob, some are short."""
    messages: list[Message] = [RULES, user("hello")]
    made = []
    for turn in range(count):
        messages.append(user(f"{words} asks {turn} " + "with a lot of detail " * (turn % 4) * 12))
        reply = assistant(f"{words} is told this much {turn}")
        made.append(
            replace(
                inference(list(messages), reply, session=session, tokens=TokenTrace(tuple(range(300 + turn)), (1, 2), (-0.1, -0.2))),
                request={"tools": TOOLS, "note": f"{words} in a field " * 40},
            )
        )
        messages.append(reply)
    return made


def _everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def _strings(path: Path) -> str:
    """All that the database still says, unpacked."""
    reader = Reader(path)
    try:
        return str([reader.items("default"), reader.sessions()])
    finally:
        reader.close()


@pytest.mark.parametrize("rewritten_bytes", [0, 1 << 30], ids=["overwritten", "rewritten"])
def test_a_session_is_gone_from_every_file_and_the_others_stay(
    tmp_path: Path, rewritten_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "REWRITTEN_BYTES", rewritten_bytes)
    store = Store.open(tmp_path / "experience.db")
    sessions = {"gone": _turns("gone", "Xylophone", 8), "kept": _turns("kept", "Marimba", 8)}
    for pair in zip(*sessions.values(), strict=True):
        for record in pair:
            store.append(record).result(10)
    for record in (sessions["gone"][2], sessions["kept"][2]):
        store.append_report(report(record, feedback=f"{record.reply['content']}: a report")).result(10)
    both = report(sessions["gone"][3], sessions["kept"][3], feedback="Xylophone and the other")
    store.append_report(both).result(10)
    store.catch_up(10)
    assert b"Xylophone" in _everything(tmp_path)
    reader = Reader(store.path)
    before = reader.session("kept")
    doomed = forget.find(reader, "default", session="gone")
    assert doomed.receipts == tuple(record.id for record in sessions["gone"]) and len(doomed.reports) == 2
    assert all("Xylophone" in text for text in doomed.texts) and len(doomed.texts) > 8
    assert forget.erase(store, doomed)
    after = reader.session("kept")
    assert [turn.inference for turn in after.turns] == [turn.inference for turn in before.turns]
    assert [turn.reports for turn in after.turns][2] == before.turns[2].reports and after.turns[3].reports == ()
    assert after.summary.reports == 1
    with pytest.raises(NotFound):
        reader.session("gone")
    assert not reader.sessions(q="Xylophone") and reader.sessions(q="Marimba")
    reader.close()
    again = store.resolve_session("default", None, [*sessions["gone"][-1].messages, sessions["gone"][-1].reply, user("and now?")])
    assert again.is_new, "nothing is remembered of it"
    store.append(_turns("gone", "Marimba", 1)[0]).result(10)  # what is shared is stored and found again
    store.close()
    assert b"Xylophone" not in _everything(tmp_path) and b"xylophone" not in _everything(tmp_path)
    assert "Xylophone" not in _strings(store.path)
    assert check(store.path) == []


def test_a_record_goes_and_its_session_stays(store: Store, reader: Reader) -> None:
    turns = _turns("s", "Word", 3)
    for turn in turns:
        store.append(turn).result(10)
    doomed = forget.find(reader, "default", record=turns[0].id)
    assert doomed.repeated_in == (turns[1].id, turns[2].id), "later turns say its reply again"
    forget.erase(store, doomed)
    left = reader.session("s")
    assert [turn.inference.id for turn in left.turns] == [turns[1].id, turns[2].id] and left.summary.turns == 2
    last = forget.find(reader, "default", record=turns[2].id)
    assert last.repeated_in == () and any("is told this much 2" in text for text in last.texts)
    assert check(store.path) == []
    with pytest.raises(NotFound):
        forget.find(reader, "default", record=turns[0].id)


def test_what_came_meanwhile_is_kept(store: Store, reader: Reader) -> None:
    """A request that uses a text of the forgotten session, between looking and erasing."""
    first = _turns("gone", "Word", 2)
    for turn in first:
        store.append(turn).result(10)
    doomed = forget.find(reader, "default", session="gone")
    late = replace(first[1], id="rec_late", session="late")
    store.append(late).result(10)
    forget.erase(store, doomed)
    assert reader.session("late").turns[0].inference.messages == first[1].messages
    assert check(store.path) == []


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_whatever_is_forgotten_the_rest_reads_as_before(tmp_path: Path, seed: int, gone: int) -> None:
    """Sessions that share beginnings at random: every record that stays is the same, and no row is left over."""
    chance = random.Random(seed)
    path = tmp_path / str(seed) / str(gone) / "experience.db"
    path.unlink(missing_ok=True)
    index_path(path).unlink(missing_ok=True)
    store = Store.open(path)
    reader = Reader(path)
    pool: list[Inference] = []
    for _ in range(14):
        start = chance.choice(pool) if pool and chance.random() < 0.7 else None
        history = [*start.messages, start.reply] if start else [RULES]
        texts = [user(chance.choice(["a", "b", "long " * 150]) + str(chance.randrange(3))) for _ in range(chance.randrange(1, 3))]
        record = inference(
            [*history, *texts],
            f"reply {chance.randrange(2)}",
            session=f"s{chance.randrange(5)}",
            request={"tools": TOOLS[: chance.randrange(2)]},
            tokens=TokenTrace(tuple(range(chance.choice([10, 300, 600]))), (1,), (-1.0,)),
        )
        store.append(record).result(10)
        pool.append(record)
    for session in chance.sample([summary.id for summary in reader.sessions()], 1) * min(gone, 1) + [f"s{n}" for n in range(gone)]:
        wanted = {item.id: item for item in reader.items("default", limit=100) if isinstance(item, Inference) and item.session != session}
        try:
            forget.erase(store, forget.find(reader, "default", session=session))
        except NotFound:
            continue
        left = {item.id: item for item in reader.items("default", limit=100) if isinstance(item, Inference | Report)}
        assert {name: _content(item) for name, item in left.items()} == {name: _content(item) for name, item in wanted.items()}
    assert check(path) == []
    reader.close()
    store.close()
    connection = sqlite3.connect(path)
    used = "SELECT prompt FROM inferences UNION SELECT reply FROM inferences UNION SELECT parent FROM messages"
    assert connection.execute(
        f"SELECT count(*) FROM messages WHERE id NOT IN (SELECT * FROM ({used}) WHERE prompt NOTNULL)"
    ).fetchone() == (0,)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def _content(item: Inference | Report) -> object:
    """Without how it follows from what may be gone."""
    return replace(item, lineage=inference().lineage) if isinstance(item, Inference) else item
