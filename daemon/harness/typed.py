"""What a user types to Reef inside an agent whose hooks are plain programs, and what they are told.

As `asking`, it imports the standard library alone: a hook holds its agent up while it runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from daemon.harness.asking import (
    BRIEF_S,
    PATIENT_S,
    Told,
    Trouble,
    as_list,
    as_object,
    ask,
    changes,
    is_new,
    read_told,
    step,
    text,
)

SKIPPED_FILE: Final = "reef-skipped.json"
"""Beside the agent's settings: the release of which the user wants to hear no more."""
COMMANDS: Final = {
    "good": ("Tell Reef that the last answer is good", "[note]"),
    "bad": ("Tell Reef that the last answer is bad, and why", "[note]"),
    "reef-update": ("Bring what Reef serves now into this session", ""),
    "reef-diff": ("What /reef-update would change, line by line", ""),
    "reef-skip": ("Hear no more of the release that is new", ""),
    "reef-status": ("What Reef serves, and what is installed here", ""),
    "reef-why": ("Which release and sessions brought a line", "words of a rule"),
}
"""Name → what it does, and what may follow it."""

_MOST_LINES = 40
_NO_SUCH_RECORD = 400
_NEWEST = 20
_UPDATE_S = 120


def typed(told: Told, binding: Path, session: str, receipt: str, command: str, words: str) -> str:
    """What to tell the user who typed `/command words`.

    Args:
        binding: the file that `told` was read from.
        session: the agent's own id of it.
        receipt: of the session's last answer from Reef; empty: there is none.

    Raises:
        Trouble: Reef is down, or refuses.
    """
    match command:
        case "good" | "bad":
            return _judge(told, session, receipt, command, words)
        case "reef-status":
            return _status(told)
        case "reef-diff":
            return _diff(told)
        case "reef-skip":
            return _skip(told, binding.with_name(SKIPPED_FILE))
        case "reef-why":
            return _why(told, words)
        case "reef-update":
            return _update(told, binding, session)
    raise Trouble(f"Reef knows no command /{command}.")


def skipped(binding: Path) -> str:
    """Empty: none."""
    try:
        return text(json.loads(binding.with_name(SKIPPED_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return ""


def _judge(told: Told, session: str, receipt: str, command: str, note: str) -> str:
    if not receipt:
        return "There is no answer of Reef's in this session yet."
    metadata = {"client": told.agent, "release": told.release_id}
    body: dict[str, object] = {"score": 1 if command == "good" else -1, "metadata": metadata}
    _report(told, session, receipt, {**body, "feedback": note} if note else body)
    return f"Reef has it: the last answer is {command}{f', {note}' if note else ''}."


def _report(told: Told, session: str, receipt: str, body: Mapping[str, object]) -> None:
    """Store a report on one answer. Where another server computes, the id that the agent keeps of an answer is that server's and names no
    record: then the session's last answer is meant. `session`: the agent's own id of it. Raises Trouble."""
    try:
        ask(told, "POST", "/reef/report", PATIENT_S, {**body, "references": [receipt]})
    except Trouble as trouble:
        last = _last_receipt(told, session) if trouble.status == _NO_SUCH_RECORD else ""
        if last in ("", receipt):
            raise
        ask(told, "POST", "/reef/report", PATIENT_S, {**body, "references": [last]})


def _last_receipt(told: Told, session: str) -> str:
    """As Reef has it, titles and summaries aside; empty: there is none."""
    try:
        found = ask(told, "GET", f"{told.scenario_path}/sessions/{quote(session, safe='')}?limit={_NEWEST}", PATIENT_S)
    except Trouble:
        return ""
    turns = [turn for turn in map(as_object, as_list(found.get("turns"))) if turn.get("number") is not None]
    return text(turns[-1].get("receipt")) if turns else ""


def _status(told: Told) -> str:
    found = changes(told, PATIENT_S)
    scenarios = map(as_object, as_list(ask(told, "GET", "/reef/status", PATIENT_S).get("scenarios")))
    here = next((one for one in scenarios if one.get("name") == told.scenario), {})
    held = ", ".join(map(text, as_list(found.get("held"))))
    news = f": {text(found.get('line'))}; /reef-update" if is_new(told, found) else ""
    lines = [
        f"Reef at {told.base_url}, scenario {told.scenario}",
        f"model      {text(found.get('model'))}, {found.get('context_tokens')} tokens",
        f"installed  {told.release_id or 'nothing yet'}",
        f"serves     {text(found.get('head'))}{news}",
        f"sessions   {here.get('sessions', 0)}, with {here.get('reports', 0)} reports",
        *([f"held       {held} (a person decides: reef releases -s {told.scenario})"] if held else []),
    ]
    return "\n".join(lines)


def _diff(told: Told) -> str:
    found = changes(told, PATIENT_S)
    head = text(found.get("head"))
    if not is_new(told, found):
        return f"{told.release_id or head} is installed and serves: nothing differs."
    if told.release_id:
        path = f"{told.scenario_path}/releases/{quote(told.release_id, safe='')}/diff/{quote(head, safe='')}"
        files = map(as_object, as_list(ask(told, "GET", path, PATIENT_S).get("files")))
        lines = [line for file in files for line in _file_lines(file)]
        whole = f"reef diff {told.release_id} {head} -s {told.scenario}"
    else:  # all that there is would come
        texts = as_object(ask(told, "GET", f"/reef/harness?release_id={quote(head, safe='')}", PATIENT_S).get("files"))
        lines = [line for name in sorted(texts) for line in (name, *(f"  + {one}" for one in text(texts[name]).splitlines()))]
        whole = f"reef show {head} --files -s {told.scenario}"
    rest = len(lines) - _MOST_LINES
    more = [f"… {rest} more lines: {whole}"] if rest > 0 else []
    return "\n".join([step(told, found), *lines[:_MOST_LINES], *more])


def _file_lines(file: dict[str, object]) -> list[str]:
    """`AGENTS.md`, and below it what goes and what comes."""
    lines = [text(file.get("path"))]
    for hunk in map(as_object, as_list(file.get("hunks"))):
        for line in map(as_object, as_list(hunk.get("lines"))):
            sign = {"removed": "−", "added": "+"}.get(text(line.get("kind")))
            if sign:
                lines.append(f"  {sign} {''.join(text(segment[0]) for one in as_list(line.get('segments')) if (segment := as_list(one)))}")
    return lines


def _skip(told: Told, path: Path) -> str:
    found = changes(told, PATIENT_S)
    if not is_new(told, found):
        return "There is nothing new to skip."
    head = text(found.get("head"))
    path.write_text(f"{json.dumps(head)}\n", encoding="utf-8")
    return f"{head} is skipped; the next release is told again. /reef-update takes it all the same."


def _why(told: Told, words: str) -> str:
    if not words:
        return "Name the words of a rule, or lora: /reef-why run the tests"
    found = ask(told, "GET", f"{told.scenario_path}/why?text={quote(words, safe='')}", PATIENT_S)
    lines = [line for event in map(as_object, as_list(found.get("releases"))) for line in _event_lines(event)]
    if lines:
        return "\n".join(lines[:_MOST_LINES])
    nearest = map(as_object, as_list(found.get("nearest")))
    near = [f"  {text(one.get('path'))}: {text(one.get('line'))} ({text(one.get('release_id'))})" for one in nearest]
    return "\n".join(["No release has such a line.", *(["The nearest:", *near] if near else [])][:_MOST_LINES])


def _event_lines(event: dict[str, object]) -> list[str]:
    sessions = [as_object(one) for one in as_list(event.get("sessions"))]
    place = f":{event['number']}" if event.get("number") else ""
    first = f"{text(event.get('release_id'))} {text(event.get('event'))} {text(event.get('path'))}{place} {text(event.get('line'))}"
    lines = [first.rstrip(), *(f"  from {text(one.get('id'))} {text(one.get('title'))}".rstrip() for one in sessions[:5])]
    return [*lines, f"  and {len(sessions) - 5} more sessions"] if len(sessions) > 5 else lines


def _update(told: Told, binding: Path, session: str) -> str:
    """The same program that installed the agent lays the files down, so hashes, hand edits and an interruption are cared for there."""
    command = [*told.command, "update", told.agent]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "REEF_HOME": str(told.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_UPDATE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Trouble(f"The update did not run: {error}. Type it elsewhere: reef update {told.agent}") from error
    if done.returncode != 0:
        raise Trouble(done.stderr.strip().removeprefix("Error: ") or f"The update ended with code {done.returncode}.")
    now = read_told(binding)
    if now.release_id == told.release_id:
        return f"{now.release_id or 'Nothing newer'} is installed: nothing changes."
    line = f"Reef {told.release_id or 'nothing'} → {now.release_id}"
    with contextlib.suppress(Trouble):  # it is laid down all the same
        found = changes(told)
        line = step(told, found) if found.get("head") == now.release_id else step(told, {"head": now.release_id})
    with contextlib.suppress(Trouble):  # it has no answer yet: then its next request takes what serves anyway
        ask(now, "POST", f"{now.scenario_path}/sessions/{quote(session, safe='')}/update", BRIEF_S, {})
    return f"{line}. It holds from your next message on."
