"""What is told of a turn by what came next. Each detector on what people and tools say, and on what only looks like it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from daemon.experience.reader import Reader
from daemon.experience.sessions.signals import observe
from daemon.experience.sessions.tool_results import exit_code, is_test_command, last_tests, outcomes
from daemon.experience.sessions.user_words import edits, mark, objects, own_words, restates, thanks
from daemon.experience.store import Store
from daemon.experience.stream import ExperienceStream
from daemon.records import Message, Status
from tests.experience.make import assistant, inference, report, user


def called(command: str | list[str], result: str, number: int = 0, *, key: str = "command") -> list[Message]:
    """A call of a shell and what came back."""
    function = {"name": "bash", "arguments": json.dumps({key: command})}
    call: Message = {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}
    return [call, {"role": "tool", "tool_call_id": f"c{number}", "content": result}]


@pytest.mark.parametrize(
    "text",
    [
        "no, use tabs",
        "No. I said the other file",
        "Nope",
        "no that's the old one",
        "That's wrong, it should return a list",
        "this is not what I asked for",
        "Wrong file!",
        "You forgot the tests",
        "it still fails with the same error",
        "still doesn't compile",
        "That didn't work",
        "please revert that",
        "undo your change",
        "I meant the second function",
        "Nein, das ist die falsche Datei",
        "non, pas celui-là",
        "不对，应该是另一个",
        "違います",
        "нет, не так",
    ],
)
def test_an_objection(text: str) -> None:
    assert objects(text)


@pytest.mark.parametrize(
    "text",
    [
        "no problem, go on",
        "No worries",
        "no need to ask again, just do it",
        "no, that's fine",
        "Now add a test",
        "none of the tests cover this, add some",
        "north of the border is Canada, right?",
        "notes.txt has the colour, read it",
        "Stop the server and start it again",
        "Don't use tabs in the new file",
        "Undo support: add a method undo() to the editor",
        "Revert to the commit before last and build",
        "It works, thanks. What's wrong with the other test?",
        "What is wrong here?",
        "Wrong inputs should raise ValueError; add that",
        "Is this not what the manual says?",
        "You are right",
        "Why did you say hello?",
        "continue",
    ],
)
def test_no_objection(text: str) -> None:
    assert not objects(text)


def test_a_users_own_words_stand_behind_what_agents_put_before_them() -> None:
    reminder = "<system-reminder>\nno, never do that\n</system-reminder>\n<env os='linux'>x</env>\n"
    assert own_words(user(f"{reminder}Go on")) == "Go on"
    assert (
        own_words({"role": "user", "content": [{"type": "text", "text": reminder}, {"type": "text", "text": "no, wrong"}]}) == "no, wrong"
    )
    assert own_words(user("<b>bold</b>")) == "<b>bold</b>"


@pytest.mark.parametrize(
    ("text", "earlier", "same"),
    [
        ("please list all the python files in src", "list all the python files in src", True),
        ("List all python files in the src folder", "list all the python files in the src folder", True),
        ("列出所有的文件和文件夹", "请列出所有的文件和文件夹", True),
        ("list all the python files in src", "delete all the rust files in lib", False),
        ("translate line 1 of the file to French", "translate line 2 of the file to French", False),
        ("go on", "go on", False),
        ("yes", "Should I do it?", False),
        ("word " * 200, "word " * 200, False),
    ],
)
def test_the_same_question_again(text: str, earlier: str, same: bool) -> None:
    assert restates(text, earlier) is same


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Thanks!", True),
        ("perfect, thank you", True),
        ("It works now", True),
        ("great", True),
        ("谢谢", True),
        ("Thanks, but the second test fails", False),
        ("great, now do the same for b.py", False),
        ("Works on my machine?", False),
        ("Thank the author in the README file of this project and in its documentation as well", False),
    ],
)
def test_thanks_and_nothing_else(text: str, said: bool) -> None:
    assert thanks(text) is said


def test_marks_typed_into_the_conversation() -> None:
    assert [mark(text) for text in ("/good", "/bad too long", "/goodbye", "good", "/Good job")] == ["good", "bad", "", "", "good"]


def test_a_reply_changed_in_the_history() -> None:
    ours = "The function returns a list of all the names in the file."
    assert edits(ours.replace("a list", "a sorted list"), ours)
    assert not edits(ours + "\n", ours), "white space is the client's"
    assert not edits(ours[:30], ours), "a cut reply is the client's too"
    assert not edits(f"<think>hm</think>{ours}", ours)
    assert not edits("Something else entirely was written here instead.", ours)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Exit code: 1\nWall time: 0.2 seconds\nOutput:\nboom", 1),  # codex
        ("Chunk ID: ab12\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nx", 2),  # codex, unified exec
        ("boom\n\nCommand exited with code 127", 127),  # pi
        ("Command: ls\nDirectory: (root)\nOutput: a\nError: (none)\nExit Code: 0\nSignal: (none)", 0),  # qwen-code
        ('{"output":"x","metadata":{"exit_code":3,"duration_seconds":0.1}}', 3),  # codex, older
        ("exit status 2", 2),  # go
        ("make: *** [all] Error 2", None),
        ("README says: a process that fails leaves exit code 1 behind, so look at it.", None),
        ("a\n" * 1000 + "Exit code: 1\n" + "b\n" * 1000, None),  # quoted in the middle of a file
    ],
)
def test_exit_codes_as_agents_write_them(text: str, code: int | None) -> None:
    assert exit_code(text) == code


@pytest.mark.parametrize(
    "result",
    [
        "Error: ENOENT: no such file or directory, open 'x'",
        "<tool_use_error>File has not been read yet.</tool_use_error>",
        "Traceback (most recent call last):\n  File …",
        "[ERROR]: The tool execution failed",
        "ENOENT: no such file or directory",
        "Exit code 1\nnothing to commit",
    ],
)
def test_a_tool_that_failed(result: str) -> None:
    assert outcomes(called("x", result))[0].failed


@pytest.mark.parametrize(
    "result",
    [
        "",
        "notes.txt",
        "def errors():\n    raise Error: not really",
        "1\tError: this line is quoted from a file",
        "Error: a log that begins so\n" * 200,
        "Exit code: 0\nOutput:\nerror: unused variable (a warning in a log)",
        "no matches found",
        "ERRORS = 3",
    ],
)
def test_a_tool_that_did_not_fail(result: str) -> None:
    assert not outcomes(called("x", result))[0].failed


def test_a_result_that_the_wire_marks_as_an_error_failed() -> None:
    messages = called("x", "File not read")
    messages[-1] = {**messages[-1], "is_error": True}
    assert outcomes(messages)[0].failed


@pytest.mark.parametrize(
    "command",
    [
        "pytest",
        "python -m pytest -q tests/",
        "cd app && .venv/bin/python -m pytest",
        "CI=1 npm test",
        "npx jest src/a.test.ts",
        "cargo test --workspace",
        "go test ./...",
        "timeout 60 uv run pytest -x",
        "bash -lc 'make check'",
        "./gradlew app:test",
        "mvn -q test",
        "node --test",
        "bundle exec rspec",
        "python manage.py test",
        "pytest 2>&1 | tail -5",
        "./scripts/run_tests.sh",
    ],
)
def test_a_test_command(command: str) -> None:
    assert is_test_command(command)


@pytest.mark.parametrize(
    "command",
    [
        "pip install pytest",
        "cat pytest.ini",
        "grep -rn pytest .",
        "git commit -m 'go test the water'",
        "echo cargo test",
        "ls tests/",
        "npm run build",
        "vim test.sh",
        "which jest",
        "test -f x && echo y",
    ],
)
def test_no_test_command(command: str) -> None:
    assert not is_test_command(command)


@pytest.mark.parametrize(
    ("command", "result", "passed"),
    [
        ("pytest", "2 failed, 8 passed in 0.3s\n\nCommand exited with code 1", False),
        ("pytest", "10 passed in 0.3s", True),
        ("pytest -q | tail -3", "1 failed, 3 passed in 0.3s", False),  # the pipe hides the exit code
        ("pytest -q | tail -3", "…", None),
        ("pytest || true", "Exit code: 0\nOutput:\ncollected nothing", None),
        ("cargo test", "test result: ok. 12 passed; 0 failed; 0 ignored", True),
        ("cargo test", "test result: FAILED. 11 passed; 1 failed", False),
        ("go test ./...", "ok  \texample.org/a\t0.004s", True),
        ("go test ./...", "--- FAIL: TestA (0.00s)\nFAIL\texample.org/a\t0.004s\nexit status 1", False),
        ("npm test", "Tests:       1 failed, 4 passed, 5 total\nCommand exited with code 1", False),
        ("npx vitest run", "Exit code: 0\nOutput:\n Tests  5 passed (5)", True),
        ("python -m unittest", "Ran 3 tests in 0.001s\n\nOK", True),
        ("python -m unittest", "Ran 3 tests in 0.001s\n\nFAILED (failures=1)", False),
        ("make check", "Exit code: 2\nOutput:\nno rule", False),
        ("make check", "Exit code: 0\nOutput:\nall good", True),
        ("make check", "all good", None),  # no exit code, no summary: it does not tell
        ("cat results.txt", "10 passed in 0.3s", None),
    ],
)
def test_how_a_test_command_ended(command: str, result: str, passed: bool | None) -> None:
    assert outcomes(called(command, result))[0].tests_passed is passed
    assert outcomes(called(["bash", "-lc", command], result))[0].tests_passed is passed
    assert outcomes(called(command, result, key="cmd"))[0].tests_passed is passed


def test_a_test_that_failed_and_then_passes_is_mended() -> None:
    failing = [user("mend it"), *called("pytest", "1 failed in 0.1s", 1)]
    edited = [*failing, *called("sed -i s/a/b/ x.py", "", 2)]
    passing = [*edited, *called("pytest", "4 passed in 0.1s", 3)]
    assert observe(failing, 2) == ("tool_failed", "tests_failed")
    assert observe(edited, 4) == ()
    assert observe(passing, 6) == ("tests_passed", "tests_mended")
    again = [*passing, *called("pytest", "4 passed in 0.1s", 4)]
    assert observe(again, 8) == ("tests_passed",)
    assert last_tests(passing) is True and last_tests(edited) is False and last_tests([user("q")]) is None


def _turn(store: Store, messages: Sequence[Message], reply: str | Message, status: Status = Status.OK) -> str:
    match = store.resolve_session("default", "s1", messages)
    record = inference(messages, reply, session="s1", lineage=match.lineage, status=status)
    store.append(record).result(10)
    return record.id


def test_signals_are_stored_when_the_next_turn_comes_and_found_again_without(store: Store, reader: Reader) -> None:
    call, failed = called("pytest", "1 failed in 0.1s", 1)
    call2, passed = called("pytest", "3 passed in 0.1s", 2)
    history: list[Message] = [user("mend the tests, please and soon")]
    _turn(store, history, call)
    history += [call, failed]
    _turn(store, history, "I mended a.py, have a look.")
    history += [assistant("I mended a.py, have a look."), user("no, it still fails")]
    _turn(store, history, call2)
    history += [call2, passed]
    _turn(store, history, "All tests pass now.")
    expected = [("tool_failed", "tests_failed"), ("objected",), ("tests_passed", "tests_mended"), ("succeeded",)]
    assert [turn.signals for turn in reader.session("s1").turns] == expected
    assert [turn.new_messages for turn in reader.session("s1").turns][1:] == [(failed,), (user("no, it still fails"),), (passed,)]
    store.execute(lambda connection: connection.execute("UPDATE inferences SET parent = NULL, step = NULL")).result(10)
    store.execute(lambda connection: connection.execute("DELETE FROM signals")).result(10)
    assert [turn.signals for turn in reader.session("s1").turns] == expected, "what was stored can be made again"
    with ExperienceStream.open(store.path, "default") as stream:
        assert [turn.signals for turn in stream.all()] == expected


def test_an_edited_reply_a_retry_a_hang_up_and_a_mark(store: Store, reader: Reader) -> None:
    reply = "The function returns a list of all the names in the file."
    first = _turn(store, [user("what does it return?")], reply)
    changed = assistant(reply.replace("a list", "a sorted list"))
    _turn(store, [user("what does it return?"), changed, user("why so?")], "Because", Status.ABORTED)
    _turn(store, [user("what does it return?"), changed, user("why so?")], "Because it sorts them at the end of the loop.")
    _turn(
        store,
        [user("what does it return?"), changed, user("why so?"), assistant("Because it sorts them at the end of the loop."), user("/good")],
        "Thank you.",
    )
    store.append_report(report(reader.inference(first), score=1.0)).result(10)
    turns = reader.session("s1").turns
    assert [turn.signals for turn in turns] == [("scored", "edited"), ("aborted", "retried"), ("good",), ()]
    assert [turn.retries for turn in turns] == [0, 1, 0, 0]
    with ExperienceStream.open(store.path, "default") as stream:
        assert [(turn.receipt, turn.retries) for turn in stream.all()][1:] == [(turns[2].inference.id, 1), (turns[3].inference.id, 0)]
