"""What Claude Code's transcript and its output say of a run: each answer once, and how it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from adapters.claude.events import read_events
from adapters.claude.headless import run_headless
from adapters.claude.hook.__main__ import answer_to
from adapters.claude.hook.runs import last_receipt, read_runs, runs_with
from daemon.harness.adapter import HeadlessTask
from daemon.harness.runtime import Program


def asked(prompt: str, content: Any, at: str = "2026-11-30T08:00:00.000Z") -> dict[str, Any]:
    return {"type": "user", "promptId": prompt, "timestamp": at, "message": {"role": "user", "content": content}}


def answered(answer: str, text: str = "", tool: str = "", at: str = "2026-11-30T08:00:02.500Z", **more: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "name": tool} if tool else {"type": "text", "text": text}
    message = {"role": "assistant", "id": answer, "model": "m", "content": [block], "stop_reason": "tool_use" if tool else "end_turn"}
    return {"type": "assistant", "timestamp": at, "message": {**message, **more}}


STOPPED = {"type": "system", "subtype": "stop_hook_summary", "hookErrors": []}


def transcript(folder: Path, *entries: dict[str, Any]) -> Path:
    path = folder / "session.jsonl"
    path.write_text('{"cut off' + "\n" + "".join(json.dumps(one) + "\n" for one in entries) + '{"type": "assis')
    return path


def test_an_answer_of_several_lines_is_one_and_the_clients_own_words_are_none(tmp_path: Path) -> None:
    path = transcript(
        tmp_path,
        asked("p1", "Read it."),
        answered("msg_a", "I read."),
        answered("msg_a", tool="Read"),
        asked("p1", [{"type": "tool_result", "content": "teal"}]),
        {**answered("msg_of_a_subagent", "x"), "isSidechain": True},
        answered("msg_b", "Teal."),
        answered("msg_c", "API Error", model="<synthetic>"),
        STOPPED,
    )
    [run] = read_runs(path)
    assert run.receipts == ["rec_a", "rec_b"] and run.tools == 1 and run.is_told and run.is_answered
    assert run.ended_at - run.began_at == 2.5 and run.said == "Teal." and last_receipt(path) == "rec_b"
    assert runs_with(path, "p1", "Teal.") == [run]
    assert read_runs(tmp_path / "none") == [] and last_receipt(tmp_path / "none") == ""


def test_a_run_that_was_stopped_is_known_and_one_whose_hook_was_ended_is_told_again(tmp_path: Path) -> None:
    interrupted = asked("p1", [{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    failed = {**STOPPED, "hookErrors": ["Failed"]}
    path = transcript(
        tmp_path, asked("p1", "x"), answered("msg_a", tool="Bash"), interrupted, asked("p2", "y"), answered("msg_b", "Z"), failed
    )
    first, second = read_runs(path)
    assert (first.is_interrupted, first.is_answered, first.receipts) == (True, False, ["rec_a"])
    assert (second.is_interrupted, second.is_answered, second.is_told) == (False, True, False)


def test_a_hook_never_fails_its_agent(tmp_path: Path) -> None:
    binding = tmp_path / "agent" / "reef.json"
    expanded = {"hook_event_name": "UserPromptExpansion", "command_name": "good"}
    for event in ({"hook_event_name": "SessionStart"}, expanded):
        said = answer_to(dict(event), binding)
        assert said is not None and "are damaged" in f"{said.get('systemMessage')}{said.get('reason')}"
    assert answer_to({"hook_event_name": "Stop"}, binding) is None
    binding.parent.mkdir()
    told = {"agent": "claude", "base_url": "http://127.0.0.1:9", "scenario": "claude", "token_path": str(tmp_path / "token")}
    binding.write_text(json.dumps({**told, "release_id": "r3", "model_id": "m", "context_tokens": 1, "command": ["reef"], "home": "/"}))
    (tmp_path / "token").write_text("rf_secret")
    said = answer_to({"hook_event_name": "SessionStart"}, binding)
    assert said == {"systemMessage": "Reef does not answer at http://127.0.0.1:9. Start it: reef up"}
    assert (binding.parent / "reef-status").read_text() == "Reef is down\n"
    blocked = answer_to({**expanded, "transcript_path": "none"}, binding)
    assert blocked is not None and blocked["decision"] == "block" and "no answer of Reef's" in str(blocked["reason"])
    assert answer_to({**expanded, "command_name": "another"}, binding) is None


def test_the_last_event_says_how_a_task_ended() -> None:
    said = {"type": "assistant", "message": {"id": "msg_a", "content": [{"type": "text", "text": "Half."}]}}
    inner = {**said, "parent_tool_use_id": "t", "message": {"id": "msg_inner", "content": []}}
    usage = {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 3}
    result: dict[str, Any] = {"type": "result", "subtype": "success", "is_error": False, "result": "Whole.", "usage": usage}
    denied = {**result, "permission_denials": [{"tool_name": "WebSearch"}]}
    whole = read_events(["warning", json.dumps(said), json.dumps(inner), json.dumps(denied)])
    assert (whole.reply, whole.error, whole.response_ids, whole.denied) == ("Whole.", "", ("msg_a",), ("WebSearch",))
    assert (whole.input_tokens, whole.output_tokens) == (7, 3)
    failed = read_events([json.dumps(said), json.dumps({**result, "is_error": True, "result": "API Error: no"})])
    assert (failed.reply, failed.error) == ("Half.", "API Error: no")
    assert read_events([json.dumps({"type": "result", "subtype": "error_max_turns"})]).error == "error_max_turns"
    assert "before the task was over" in read_events([json.dumps(said)]).error


def test_a_task_gets_its_prompt_its_headers_and_no_variable_of_ours(tmp_path: Path) -> None:
    script = """#!/bin/sh
prompt=$(cat)
headers=$(printf %s "$ANTHROPIC_CUSTOM_HEADERS" | tr '\\n' '|')
printf '{"type":"result","subtype":"success","is_error":false,"result":"%s %s %s"}\\n' "$prompt" "$headers" "$HOME"
"""
    program = Program(tmp_path / "claude", "2.1.332", None)
    program.command.write_text(script)
    program.command.chmod(0o755)
    copy = tmp_path / "100% copy"
    copy.mkdir()
    task = HeadlessTask("@do -it", copy, timeout_s=20, session="s 1\nx-evil: 1", environment={"PATH": "/usr/bin:/bin"})
    outcome = run_headless(program, (), {"ANTHROPIC_CUSTOM_HEADERS": "x-reef-tag-cwd: "}, task)
    assert outcome.exit_code == 0, outcome
    assert outcome.text == f"@do -it x-reef-tag-cwd: {tmp_path}/100%25 copy|x-reef-tag-session: s 1%0Ax-evil: 1 "
