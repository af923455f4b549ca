"""One event of Claude Code's: reads it, answers it, and never fails: what went wrong is a sentence for the user."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from adapters.claude.hook.runs import Run, last_receipt, runs_with
from adapters.claude.hook.telling import look, look_again
from daemon.harness.asking import Told, Trouble, as_object, ask, printable, read_told, text
from daemon.harness.typed import COMMANDS, typed

_MOST_RECEIPTS = 200
_REPORT_S = 1.0

Event = dict[str, object]


def main() -> int:
    if sys.argv[2:] == ["--notice"]:
        with contextlib.suppress(Trouble):  # the agent itself will say what is wrong
            if said := look(read_told(Path(sys.argv[1])), Path(sys.argv[1]), ""):
                print(said)
        return 0
    answer: dict[str, object] | None
    try:
        event = as_object(json.loads(sys.stdin.buffer.read()))
        answer = answer_to(event, Path(sys.argv[1]))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the agent goes on
        answer = {"systemMessage": f"Reef's hook failed: {type(error).__name__}: {error}"}
    if answer:
        print(json.dumps(answer, ensure_ascii=True))
    return 0


def answer_to(event: Event, binding: Path) -> dict[str, object] | None:
    """None: nothing is to be said."""
    kind = text(event.get("hook_event_name"))
    try:
        told = read_told(binding)
        if kind == "SessionStart":
            return _message(look(told, binding))
        if kind == "UserPromptExpansion":
            return _command(told, binding, event)
        if kind in ("Stop", "StopFailure"):
            _report_runs(told, event, "completed" if kind == "Stop" else "failed")
            return _message(look_again(told, binding))
        if kind == "SessionEnd":
            _report_runs(told, event, "")
    except Trouble as trouble:
        if kind in ("SessionStart", "UserPromptExpansion"):
            return _block(str(trouble)) if kind == "UserPromptExpansion" else _message(str(trouble))
    return None


def _command(told: Told, binding: Path, event: Event) -> dict[str, object] | None:
    command = text(event.get("command_name"))
    if command not in COMMANDS:
        return None
    receipt = last_receipt(Path(text(event.get("transcript_path")))) if command in ("good", "bad") else ""
    said = typed(told, binding, text(event.get("session_id")), receipt, command, text(event.get("command_args")).strip())
    if command in ("reef-update", "reef-skip", "reef-status"):
        look(read_told(binding), binding)  # for the status line
    return _block(said)


def _report_runs(told: Told, event: Event, outcome: str) -> None:
    """How the run that has just ended did, and those before it that no hook was told of: stopped, or left at once when they had ended.

    What was told is told again under the same id, which changes nothing.

    Args:
        outcome: of the run that has just ended; empty: the session ends.
    """
    now = text(event.get("prompt_id")) if outcome else ""
    runs = runs_with(Path(text(event.get("transcript_path"))), now, text(event.get("last_assistant_message")))
    for run in reversed(runs):
        if run.prompt_id == now:
            _report(told, event, run, outcome)
        elif run.is_interrupted or not run.is_told:
            _report(told, event, run, "completed" if run.is_answered and not run.is_interrupted else "aborted")
        else:
            break


def _report(told: Told, event: Event, run: Run, outcome: str) -> None:
    if not run.receipts:
        return  # no answer of Reef's in it
    metadata: dict[str, object] = {
        "outcome": outcome,
        "client": told.agent,
        "agent_session": event.get("session_id"),
        "release": told.release_id,
        "cwd": event.get("cwd"),
        "turns": len(run.receipts),
        "tools": run.tools,
        "seconds": round(max(0.0, run.ended_at - run.began_at), 3),
        "receipts": run.receipts[-_MOST_RECEIPTS:],
    }
    body = {
        "agent_record_id": f"rep_{run.prompt_id.replace('-', '')}",
        "references": run.receipts[-1:] if outcome == "aborted" else [],
        "metadata": metadata,
    }
    with contextlib.suppress(Trouble):  # the answers are recorded; how the run ended is only a help
        ask(told, "POST", "/reef/report", _REPORT_S, body)


def _message(said: str) -> dict[str, object] | None:
    return {"systemMessage": printable(said)} if said else None


def _block(said: str) -> dict[str, object]:
    """The prompt goes no further: no model is asked, and nothing of it stays in the conversation."""
    inner = {"hookEventName": "UserPromptExpansion", "suppressOriginalPrompt": True}
    return {"decision": "block", "reason": printable(said), "hookSpecificOutput": inner}


if __name__ == "__main__":
    sys.exit(main())
