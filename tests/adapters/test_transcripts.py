"""The sessions that each agent keeps for itself, as the real ones wrote them, and what else may lie there."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from daemon.importing.conversation import ImportedSession, conversations, named
from daemon.importing.files import Skipped
from daemon.importing.transcript import TranscriptReader
from daemon.importing.transfer import from_json, to_json
from daemon.records import JSONObject
from reef_cli.transcripts import find_reader

SAMPLES = Path(__file__).parent.parent / "data" / "transcripts"
AGENTS = ("pi", "claude", "codex", "opencode")


def reader_of(agent: str) -> TranscriptReader:
    reader = find_reader(agent)
    assert reader is not None
    return reader


def database(folder: Path) -> Path:
    """opencode's, from the rows of the sample."""
    path = folder / "opencode.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    for line in (SAMPLES / "opencode.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "sql" in entry:
            connection.execute(entry["sql"])
        else:
            connection.execute(f"INSERT INTO {entry['table']} VALUES ({', '.join('?' * len(entry['row']))})", entry["row"])
    connection.commit()
    connection.close()
    return path


def read(agent: str, path: Path) -> tuple[list[ImportedSession], list[Skipped]]:
    sessions: list[ImportedSession] = []
    skipped: list[Skipped] = []
    reader = reader_of(agent)
    for file in reader.files(path):
        for found in [file] if isinstance(file, Skipped) else reader.read(file, lambda _: None):
            if isinstance(found, Skipped):
                skipped.append(found)
            else:
                sessions.append(named(found[1]))
    return sessions, skipped


def lines(path: Path, *entries: JSONObject) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


@pytest.mark.parametrize("agent", AGENTS)
def test_a_real_session_is_read_whole(agent: str, tmp_path: Path) -> None:
    path = database(tmp_path) if agent == "opencode" else SAMPLES / f"{agent}.jsonl"
    [session], skipped = read(agent, path)
    assert not skipped
    first, second, third = session.turns
    assert [turn.parent for turn in session.turns] == [None, 0, 1]
    asked = first.added[-1]
    assert asked["role"] == "user" and "Which colour do the notes name?" in str(asked["content"])
    assert first.reply["content"] == "Let me look."
    if agent != "claude":  # which keeps no thought's text
        assert first.reply["reasoning_content"] == "I read the notes."
    [made] = first.reply["tool_calls"]  # type: ignore[misc]
    [result] = second.added
    assert result["role"] == "tool" and result["tool_call_id"] == made["id"] and "The colour is teal." in str(result["content"])  # type: ignore[index, call-overload]
    assert (second.reply["content"], third.reply["content"]) == ("The notes say teal.", "You are welcome.")
    assert [turn.finish_reason for turn in session.turns] == ["tool_calls", "stop", "stop"]
    assert all(turn.model == "scripted" and turn.usage.prompt_tokens == 100 and turn.created_at for turn in session.turns)
    assert session.tags == {"transcript": agent, "cwd": "/home/somebody/work"}
    assert named(from_json(to_json(session), "it")) == session
    if agent in ("claude", "codex"):
        assert first.id == {"claude": "rec_06h2nqfmjghj9bc38gjswb56", "codex": "rec_06h2nqfrpwcsn6x3h80zp0wp"}[agent], "the reply's id"


def test_a_longer_session_adds_only_its_new_turns(tmp_path: Path) -> None:
    whole = (SAMPLES / "pi.jsonl").read_text().splitlines()
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join(whole[:-1]) + "\n" + whole[-1][:40])
    [before], skipped = read("pi", path)
    assert [item.where for item in skipped] == [f"{path}:{len(whole)}"], "the line that is still being written"
    path.write_text("\n".join(whole) + "\n")
    [after], _ = read("pi", path)
    assert after.turns[:2] == before.turns and len(after.turns) == 3


def entry(key: str, parent: str | None, role: str, text: str, **more: object) -> JSONObject:
    message: JSONObject = {"role": role, "content": [{"type": "text", "text": text}], **more}  # type: ignore[dict-item]
    return {"type": "message", "id": key, "parentId": parent, "message": message}


def test_pi_goes_on_from_an_earlier_point_and_behind_a_compaction(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "tree.jsonl",
        {"type": "session", "version": 3, "id": "s", "cwd": "/w"},
        entry("1", None, "user", "first"),
        entry("2", "1", "assistant", "one"),
        entry("3", "2", "user", "second"),
        entry("4", "3", "assistant", "two"),
        {"type": "branch_summary", "id": "5", "parentId": "2", "summary": "It went wrong."},
        entry("6", "5", "user", "instead"),
        entry("7", "6", "assistant", "three"),
        {"type": "compaction", "id": "8", "parentId": "7", "summary": "We spoke.", "firstKeptEntryId": "6"},
        entry("9", "8", "user", "more"),
        entry("10", "9", "assistant", "", stopReason="error"),
        entry("11", "8", "user", "more"),
        entry("12", "11", "assistant", "four", stopReason="aborted"),
    )
    [session], skipped = read("pi", path)
    assert not skipped and [turn.parent for turn in session.turns] == [None, 0, 0, None]
    assert [turn.reply["content"] for turn in session.turns] == ["one", "two", "three", "four"]
    assert "It went wrong." in str(session.turns[2].added[0]["content"])
    begun = [str(message["content"]) for message in session.turns[3].added]
    assert "We spoke." in begun[0] and begun[1:] == ["instead", "three", "more"], "what was kept stands behind the summary"
    assert session.turns[3].finish_reason == "aborted"


def said(key: str, parent: str | None, role: str, content: object, reply: str = "") -> JSONObject:
    message = {"role": role, "content": content, **({"id": reply, "model": "m"} if reply else {})}
    return {"type": role, "uuid": key, "parentUuid": parent, "sessionId": "s", "cwd": "/w", "message": message}  # type: ignore[dict-item]


def test_calls_that_claude_made_at_once_are_one_reply_with_all_their_results(tmp_path: Path) -> None:
    def calls(name: str) -> list[JSONObject]:
        return [{"type": "tool_use", "id": name, "name": "Read", "input": {"path": name}}]

    def result(name: str) -> list[JSONObject]:
        return [{"type": "tool_result", "tool_use_id": name, "content": f"text of {name}"}]

    path = lines(
        tmp_path / "s.jsonl",
        said("1", None, "user", "read both"),
        said("2", "1", "assistant", calls("a"), "msg_1"),
        said("3", "2", "assistant", calls("b"), "msg_1"),
        said("4", "2", "user", result("a")),
        said("5", "3", "user", result("b")),
        said("6", "5", "assistant", [{"type": "text", "text": "done"}], "msg_2"),
        said("7", "1", "assistant", [{"type": "text", "text": "another"}], "msg_3"),
    )
    [session], _ = read("claude", path)
    assert [turn.parent for turn in session.turns] == [None, 0, None], "the last is a branch from the question"
    assert [call["id"] for call in session.turns[0].reply["tool_calls"]] == ["a", "b"]  # type: ignore[union-attr, index, call-overload]
    assert [message["content"] for message in session.turns[1].added] == ["text of a", "text of b"]
    assert [[message["role"] for message in prompt] for prompt in conversations(session)][2] == ["user"]


def test_what_was_taken_back_in_codex_is_a_branch(tmp_path: Path) -> None:
    def item(role: str, text: str) -> JSONObject:
        return {"type": "response_item", "payload": {"type": "message", "role": role, "content": [{"type": "text", "text": text}]}}

    begun: JSONObject = {"type": "event_msg", "payload": {"type": "task_started"}}
    path = lines(
        tmp_path / "rollout.jsonl",
        {"type": "session_meta", "payload": {"id": "s", "cwd": "/w"}},
        *(begun, item("user", "first"), item("assistant", "one")),
        *(begun, item("user", "second"), item("assistant", "two")),
        {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
        *(begun, item("user", "instead"), item("assistant", "three")),
        {"type": "compacted", "payload": {"message": "We spoke."}},
        *(begun, item("user", "more"), item("assistant", "four")),
    )
    [session], _ = read("codex", path)
    assert [turn.parent for turn in session.turns] == [None, 0, 0, None]
    assert "We spoke." in str(session.turns[3].added[0]["content"])


@pytest.mark.parametrize("agent", AGENTS)
def test_whatever_lies_there_is_named_and_nothing_is_followed(agent: str, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    name = "opencode.db" if agent == "opencode" else "a.jsonl"
    for content in (b"\0\xff" * 50, b'{"type": "session"}\n', b'[1]\n{"a": [' + b"[" * 3000, b'{"type": "session_meta", "payload": 7}\n'):
        (folder / name).write_bytes(content)
        sessions, _ = read(agent, folder)
        assert not sessions
    (folder / name).unlink()
    os.mkfifo(folder / name)
    read(agent, folder)  # does not wait for a writer
    (folder / name).unlink()
    (folder / name).symlink_to(database(tmp_path) if agent == "opencode" else SAMPLES / f"{agent}.jsonl")
    assert read(agent, folder)[0] == []


def test_opencode_is_read_while_it_writes_and_nothing_is_changed(tmp_path: Path) -> None:
    path = database(tmp_path)
    writing = sqlite3.connect(path)
    writing.execute("BEGIN IMMEDIATE")
    writing.execute("UPDATE session SET title = 'busy'")
    before = path.read_bytes()
    [session], skipped = read("opencode", tmp_path)
    assert len(session.turns) == 3 and not skipped and path.read_bytes() == before
    writing.rollback()
    writing.execute("UPDATE message SET data = 'no json' WHERE id = (SELECT min(id) FROM message)")
    writing.commit()
    writing.close()
    sessions, [told] = read("opencode", tmp_path)
    assert not sessions and "ses_" in told.where and "not valid JSON" in told.reason
