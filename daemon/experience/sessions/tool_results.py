"""What tool results say, as agents write them: whether a call failed, and whether a test command passed.

Conservative: a result that quotes an exit code or an error in the middle of other text says nothing here. Only the beginning
and the end of a long result are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from daemon import json_text
from daemon.experience.sessions.keys import text_of
from daemon.records import JSON, JSONObject, Message

_HEAD_CHARACTERS = 600
_TAIL_CHARACTERS = 4000
_SHORT_CHARACTERS = 2000  # an error that fills a result; a file or a log that begins with the word is longer

# A line of its own: "Exit code: 1" (codex, qwen-code), "Command exited with code 1" (pi), "Process exited with code 1".
_EXIT = re.compile(
    r"^\W{0,4}(?:the )?(?:command |process |shell )?(?:failed )?"
    r"(?:exit(?:ed)?(?: with)?(?: exit| status)?(?: code| status)?|with exit code)"
    r"\W{1,3}(-?\d{1,5})\W{0,3}$",
    re.I | re.M,
)
_EXIT_FIELD = re.compile(r"\"exit_?code\"\s*:\s*(-?\d{1,5})\s*[,}]", re.I)
_ERROR = re.compile(
    r"\s*(?:<(?:tool_use_)?error>|\[?error\]?(?: executing tool| calling tool)?:|traceback \(most recent call last\)"
    r"|E(?:NOENT|ACCES|ISDIR|PERM)\b|tool (?:execution|call) (?:failed|error)|the tool execution failed)",
    re.I,
)
_RUNNER = (
    r"(?:pytest|py\.test|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|unittest|cargo (?:test|nextest)|go test|node --test"
    r"|(?:npm|yarn|pnpm|bun)(?: run)? test|deno test|make (?:test|check)|(?:mvnw?|gradlew?)(?: \S+)* (?:\S+:)?(?:test|check|verify)"
    r"|dotnet test|swift test|mix test|rake test|stack test|cabal test|sbt test|flutter test|dart test|zig build test"
    r"|python[\d.]* (?:\S*/)?(?:manage\.py test|(?:run_?)?tests?\.py)|(?:run[_-]?)?tests?\.sh)"
)
# At the place of a command: at the start, after a separator or a shell's -c, behind variables and what runs commands.
_TEST = re.compile(
    r"(?:^|[;&|(\n]|\s-\w*c\s+['\"])\s*(?:\w+=\S*\s+)*"
    r"(?:(?:sudo|time|nice|env|exec|timeout \S+|(?:uv|poetry|pipenv|pdm|hatch) run|npx|bunx|bundle exec|(?:\S*/)?python[\d.]* -m)\s+)*"
    rf"(?:\S*/)?{_RUNNER}(?=$|[\s;&|)'\"])"
)
_HIDES_EXIT = re.compile(r"\|(?!\|)|\|\|\s*(?:true|:|echo)|;\s*(?:echo|true)\b")
_FAILED = re.compile(
    r"\b[1-9]\d* (?:tests? |specs? )?(?:failed|failing|failures?)\b|^FAILED \((?:failures|errors)=|^test result: FAILED|^--- FAIL:|^FAIL\b"
    r"|\b[1-9]\d* errors? in [\d.]+ ?s|^Tests run: \d+, Failures: [1-9]",
    re.M,
)
_PASSED = re.compile(
    r"\b[1-9]\d* (?:tests? |specs? )?pass(?:ed|ing)\b|^OK(?: \(|\s*$)|^test result: ok\.|^ok\s+\S+\s+[\d.]+s"
    r"|\b[1-9]\d* examples?, 0 failures"
    r"|^PASS\b|^# fail 0\s*$|^Tests run: [1-9]\d*, Failures: 0, Errors: 0|\bBUILD SUCCESS",
    re.M,
)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What one result says. `tests_passed` is None for what is no test command, and where the result does not tell."""

    failed: bool
    tests_passed: bool | None


def outcomes(messages: Sequence[Message], start: int = 0) -> list[ToolOutcome]:
    """What each tool result in `messages[start:]` says, in order; the calls may come before `start`."""
    results = [message for message in messages[start:] if message.get("role") == "tool"]
    if not results:
        return []
    calls = _calls(messages, {str(message.get("tool_call_id")) for message in results})
    return [_outcome(message, calls.get(str(message.get("tool_call_id")))) for message in results]


def last_tests(messages: Sequence[Message]) -> bool | None:
    """How the newest test command of a conversation ended whose result tells; None: there is none."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].get("role") == "tool":
            call = _calls(messages[:place], {str(messages[place].get("tool_call_id"))})
            passed = _outcome(messages[place], next(iter(call.values()), None)).tests_passed
            if passed is not None:
                return passed
    return None


def is_test_command(command: str) -> bool:
    return bool(_TEST.search(command[:_TAIL_CHARACTERS]))


def exit_code(text: str) -> int | None:
    """The exit code that a result tells on a line of its own, at its beginning or its end."""
    for part in (text[:_HEAD_CHARACTERS], text[-_HEAD_CHARACTERS:]):
        if found := list(_EXIT.finditer(part)):
            return int(found[-1].group(1))
    if text.startswith("{") and (field := _EXIT_FIELD.search(text[-_HEAD_CHARACTERS:])):
        return int(field.group(1))
    return None


def _outcome(message: Message, call: JSONObject | None) -> ToolOutcome:
    text = text_of(message.get("content"))
    code = exit_code(text)
    is_error = message.get("is_error") is True
    failed = is_error or code not in (None, 0) or (code is None and len(text) <= _SHORT_CHARACTERS and bool(_ERROR.match(text)))
    command = _command(call) if call is not None else ""
    if not command or not is_test_command(command):
        return ToolOutcome(failed, None)
    hidden = bool(_HIDES_EXIT.search(command))
    tail = text[-_TAIL_CHARACTERS:]
    if _FAILED.search(tail):
        return ToolOutcome(failed or not hidden, False)
    if failed:
        return ToolOutcome(True, False)
    return ToolOutcome(False, True if _PASSED.search(tail) or (code == 0 and not hidden) else None)


def _calls(messages: Sequence[Message], wanted: set[str]) -> dict[str, JSONObject]:
    """The functions of the calls with these ids, the newest of each, arguments parsed."""
    found: dict[str, JSONObject] = {}
    for message in reversed(messages):
        if not wanted:
            break
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict) and (name := str(call.get("id"))) in wanted:
                function = call.get("function")
                wanted.discard(name)
                if isinstance(function, dict):
                    found[name] = function
    return found


def _command(function: JSONObject) -> str:
    """The command that a call runs; empty for tools that run none."""
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json_text.parse(arguments)
        except ValueError:
            return ""
    if not isinstance(arguments, dict):
        return ""
    for name in ("command", "cmd", "script"):
        value: JSON = arguments.get(name)
        if isinstance(value, list):
            return "\n".join(item for item in value if isinstance(item, str))
        if isinstance(value, str):
            return value
    return ""
