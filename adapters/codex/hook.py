"""What codex runs as a hook: `python -m adapters.codex.hook BINDING`, with the event as JSON on stdin and its answer on stdout.

At a session's first message it tells what an update would bring. A message `$reef-good NOTE` or `$reef-bad NOTE` it takes before the model
sees it, and reports the last answer of the session. codex waits meanwhile, so this imports the standard library alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from daemon.harness.asking import PATIENT_S, Told, Trouble, as_object, ask, changes, notice, printable, read_told, text

_SAID: Final = re.compile(r"\s*(?:\[\$reef-(good|bad)\]\([^)]*\)|\$reef-(good|bad)(?![\w-]))\s*(.*)", re.DOTALL)
_TAIL_BYTES: Final = 1 << 20
_RESPONSE: Final = re.compile(r'"response_id":"resp_(\w+)"')


def main() -> None:
    try:
        event = as_object(json.load(sys.stdin))
    except ValueError:
        return  # none of codex's
    answer = answer_to(event, Path(sys.argv[1]))
    if answer:
        print(json.dumps(answer, ensure_ascii=False))


def answer_to(event: Mapping[str, object], binding: Path) -> dict[str, object]:
    """Empty where there is nothing to say."""
    if event.get("hook_event_name") == "SessionStart":
        message = "" if event.get("source") == "compact" else start(binding)
        return {"systemMessage": message} if message else {}
    said = _SAID.fullmatch(text(event.get("prompt")))
    if event.get("hook_event_name") != "UserPromptSubmit" or said is None:
        return {}
    try:
        reason = judge(read_told(binding), event, said[1] or said[2], said[3].strip())
    except Trouble as trouble:
        reason = str(trouble)
    return {"decision": "block", "reason": printable(reason)}


def start(binding: Path) -> str:
    """The notice; empty where there is nothing to say."""
    try:
        told = read_told(binding)
    except Trouble as trouble:
        return printable(str(trouble))
    try:
        return notice(told, changes(told), f"to take it: reef update {told.agent}, then /new")
    except Trouble as trouble:
        early = trouble.status == 404 and not told.release_id  # the scenario begins with its first request
        return "" if early else printable(str(trouble))


def judge(told: Told, event: Mapping[str, object], judgement: str, note: str) -> str:
    """Report the session's last answer. Raises Trouble."""
    receipt = last_receipt(text(event.get("transcript_path")))
    if not receipt:
        return "There is no answer of Reef's in this session yet."
    body: dict[str, object] = {"references": [receipt], "score": 1 if judgement == "good" else -1}
    if note:
        body["feedback"] = note
    body["metadata"] = {"client": "codex", "agent_session": text(event.get("session_id")), "release": told.release_id}
    ask(told, "POST", "/reef/report", PATIENT_S, body)
    return f"Reef has it: the last answer is {judgement}{f', {note}' if note else ''}."


def last_receipt(transcript: str) -> str:
    """Of the last answer that the transcript tells of; empty: there is none."""
    try:
        with Path(transcript).open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            found = _RESPONSE.findall(stream.read().decode(errors="replace"))
    except (OSError, ValueError):
        return ""
    return f"rec_{found[-1]}" if found else ""


if __name__ == "__main__":
    main()
