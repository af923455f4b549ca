"""What a session's transcript says of the runs in it: which answers of Reef's, and how each ended.

A run is what follows one prompt. The transcript is Claude Code's own and grows while it runs; only its end is read.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from daemon.harness.asking import as_list, as_object, text

_MOST_BYTES: Final = 8 << 20
_LATE_S: Final = 1.0
_INTERRUPTED: Final = "[Request interrupted by user"


@dataclass(slots=True)
class Run:
    prompt_id: str
    receipts: list[str] = field(default_factory=list)  # oldest first, each once
    said: str = ""  # the text of its last answer
    tools: int = 0
    began_at: float = 0.0  # seconds since 1970; 0: not told
    ended_at: float = 0.0
    is_answered: bool = False  # its last answer calls no tool
    is_interrupted: bool = False
    is_told: bool = False  # its end was told to a hook


def read_runs(transcript: Path) -> list[Run]:
    """Oldest first; empty where the transcript cannot be read."""
    runs: list[Run] = []
    for entry in _entries(transcript):
        kind, message = entry.get("type"), as_object(entry.get("message"))
        if entry.get("isSidechain") is True:
            continue
        if kind == "user" and (prompt := text(entry.get("promptId"))):
            if not runs or runs[-1].prompt_id != prompt:
                runs.append(Run(prompt, began_at=_seconds(entry)))
            if any(said.startswith(_INTERRUPTED) for said in _texts(message.get("content"))):
                runs[-1].is_interrupted = True
        elif kind == "assistant" and runs:
            _take_answer(runs[-1], message)
        elif kind == "system" and entry.get("subtype") == "stop_hook_summary" and runs:
            runs[-1].is_told = not as_list(entry.get("hookErrors"))  # else: the session was left at once, which ends a hook
        if runs and kind in ("user", "assistant"):
            runs[-1].ended_at = _seconds(entry) or runs[-1].ended_at
    return runs


def runs_with(transcript: Path, prompt_id: str, said: str) -> list[Run]:
    """`read_runs`, once the answer `said` of the run `prompt_id` is among them: Claude Code writes it a moment after it tells a hook."""
    deadline = time.monotonic() + _LATE_S
    while True:
        runs = read_runs(transcript)
        if not said or any(run.prompt_id == prompt_id and run.said == said.strip() for run in runs) or time.monotonic() > deadline:
            return runs
        time.sleep(_LATE_S / 20)


def last_receipt(transcript: Path) -> str:
    """Of the session's last answer from Reef; empty: there is none."""
    return next((run.receipts[-1] for run in reversed(read_runs(transcript)) if run.receipts), "")


def _take_answer(run: Run, message: dict[str, object]) -> None:
    answered = text(message.get("id"))
    if message.get("model") == "<synthetic>" or not answered.startswith("msg_"):
        return  # Claude Code's own words
    receipt = f"rec_{answered.removeprefix('msg_')}"
    if receipt not in run.receipts:  # a line for each block of one answer
        run.receipts.append(receipt)
    run.is_answered = message.get("stop_reason") in ("end_turn", "max_tokens", "stop_sequence")
    run.said = " ".join(_texts(message.get("content"))).strip() or run.said
    run.tools += sum(as_object(block).get("type") == "tool_use" for block in as_list(message.get("content")))


def _entries(transcript: Path) -> list[dict[str, object]]:
    try:
        with transcript.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _MOST_BYTES))
            lines = stream.read(_MOST_BYTES).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(as_object(json.loads(line)))
        except ValueError:
            continue  # cut off at either end
    return found


def _texts(content: object) -> list[str]:
    return [text(as_object(one).get("text")) for one in as_list(content)] or [text(content)]


def _seconds(entry: dict[str, object]) -> float:
    try:
        return datetime.fromisoformat(text(entry.get("timestamp"))).timestamp()
    except ValueError:
        return 0.0
