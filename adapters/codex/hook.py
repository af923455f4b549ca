"""What codex runs as a hook: `python -m adapters.codex.hook BINDING`, with the event as JSON on stdin and its answer on stdout.

At a session's first message it tells what an update would bring. A message such as `$reef-good NOTE` it takes before the model sees it, and
answers it itself. codex waits meanwhile, so this imports the standard library alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from daemon.harness.asking import Trouble, as_object, changes, notice, printable, read_told, text
from daemon.harness.typed import COMMANDS, skipped, typed

_SAID: Final = re.compile(r"\s*(?:\[\$reef-([a-z]+)\]\([^)]*\)|\$reef-([a-z]+)(?![\w-]))\s*(.*)", re.DOTALL)
_HOW: Final = "$reef-update, $reef-diff, $reef-skip"
_SLASH: Final = re.compile(r"(?<![\w./])/(?=reef-)")
_TAIL_BYTES: Final = 1 << 20
_RESPONSE: Final = re.compile(r'"response_id":"resp_(\w+)"')


def main() -> None:
    if sys.argv[2:] == ["--notice"]:
        if said := start(Path(sys.argv[1]), ""):
            print(said)
        return
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
    name = said[1] or said[2]
    command = name if name in COMMANDS else f"reef-{name}"
    if command not in COMMANDS:
        return {}
    try:
        receipt = last_receipt(text(event.get("transcript_path")))
        reason = typed(read_told(binding), binding, text(event.get("session_id")), receipt, command, said[3].strip())
    except Trouble as trouble:
        reason = str(trouble)
    return {"decision": "block", "reason": printable(_SLASH.sub("$", reason))}


def start(binding: Path, how: str = _HOW) -> str:
    """The notice; empty where there is nothing to say. `how`: to take the update."""
    try:
        told = read_told(binding)
    except Trouble as trouble:
        return printable(str(trouble))
    try:
        return notice(told, changes(told), how, skipped(binding))
    except Trouble as trouble:
        early = trouble.status == 404 and not told.release_id  # the scenario begins with its first request
        return "" if early else printable(str(trouble))


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
