"""How a hook of an agent finds Reef, asks it, and puts what it hears in words.

A hook is a process of its own that holds its agent up while it runs, so this imports the standard library alone. What it needs to know lies
in `reef.json` in the agent's own folder; the token is read for each question, so a renewed one needs no new installation.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote, urlsplit

BRIEF_S: Final = 0.2
"""What an agent may wait for Reef."""
PATIENT_S: Final = 10.0
"""What a person who asked for something may wait for it."""
_MOST_BYTES: Final = 4 << 20
_STEERING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class Trouble(Exception):
    """What went wrong, as a sentence for the user. `status` is 0 where Reef did not answer at all."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent was told when its files were laid down."""

    agent: str
    base_url: str
    scenario: str
    token_path: Path
    release_id: str  # whose harness lies in the agent's folder; empty before the first one
    model_id: str
    context_tokens: int
    command: tuple[str, ...]  # Reef's command line, to which arguments are added
    home: Path  # Reef's

    @property
    def scenario_path(self) -> str:
        return f"/reef/scenarios/{quote(self.scenario, safe='')}"


def read_told(path: Path) -> Told:
    """Raises Trouble: the file is damaged, or not there."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return Told(
            agent=str(told["agent"]),
            base_url=str(told["base_url"]),
            scenario=str(told["scenario"]),
            token_path=Path(told["token_path"]),
            release_id=str(told["release_id"]),
            model_id=str(told["model_id"]),
            context_tokens=int(told["context_tokens"]),
            command=tuple(map(str, told["command"])),
            home=Path(told["home"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Trouble(f"Reef's settings in {path} are damaged. Type: reef install {path.parent.parent.name}") from error


def ask(told: Told, method: str, path: str, wait_s: float, body: Mapping[str, object] | None = None) -> dict[str, object]:
    """One question.

    Raises:
        Trouble: Reef does not answer within about `wait_s`, or refuses.
    """
    down = f"Reef does not answer at {told.base_url}. Start it: reef up"
    address = urlsplit(told.base_url)
    secure = address.scheme == "https"
    connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    try:
        token = told.token_path.read_text(encoding="utf-8").strip()
        until = time.monotonic() + wait_s
        connection = connect(address.hostname or "", address.port, timeout=wait_s)
        connection.connect()
        connection.sock.settimeout(max(0.01, until - time.monotonic()))
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "x-reef-scenario": told.scenario}
        connection.request(method, address.path.rstrip("/") + path, None if body is None else json.dumps(body).encode(), headers)
        response = connection.getresponse()
        data = response.read(_MOST_BYTES)
        connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Trouble(down) from error
    try:
        answer = as_object(json.loads(data))
    except ValueError as error:
        raise Trouble(f"Reef's answer at {told.base_url} cannot be read. Look at: reef logs") from error
    if response.status < 400:
        return answer
    error_told = as_object(answer.get("error"))
    said = text(error_told.get("message")) or f"Reef refused it ({response.status})."
    raise Trouble(f"{said} {text(error_told.get('hint'))}".strip(), response.status)


def changes(told: Told, wait_s: float = BRIEF_S) -> dict[str, object]:
    """What an update would bring. Raises Trouble."""
    return ask(told, "GET", f"/reef/harness/changes?since={quote(told.release_id, safe='')}", wait_s)


def is_new(told: Told, found: Mapping[str, object]) -> bool:
    """Whether something is not installed yet: another release, or the first one with anything in it."""
    return found.get("head") != told.release_id if told.release_id else found.get("harness_changed") is True


def step(told: Told, found: Mapping[str, object]) -> str:
    """`Reef r12 → r14: +2 rules −1 skill`."""
    head, line = text(found.get("head")), text(found.get("line"))
    releases = f"{told.release_id} → {head}" if told.release_id else head
    return f"Reef {releases}{f': {line}' if line else ''}"


def fits(told: Told, found: Mapping[str, object]) -> bool:
    """Whether the agent is set up for the model that serves, and for its window."""
    return found.get("model") == told.model_id and found.get("context_tokens") == told.context_tokens


def notice(told: Told, found: Mapping[str, object], how: str = "", skipped: str = "") -> str:
    """What to tell at the agent's start, a line each; empty where there is nothing to say.

    Args:
        how: to take the update; `reef update NAME` where the agent has no command for it.
        skipped: the release of which the user wants to hear no more.
    """
    update = f"reef update {told.agent}"
    lines = []
    if is_new(told, found) and found.get("head") != skipped:
        lines.append(f"{step(told, found)}; {how or f'to take it: {update}'}")
    if not fits(told, found):
        served = f"{text(found.get('model'))} with {found.get('context_tokens')} tokens"
        here = f"{told.model_id} with {told.context_tokens}"
        lines.append(f"Reef serves {served} now, and {told.agent} is set up for {here}. Type: {update}, then start it again.")
    return printable("\n".join(lines))


def as_object(value: object) -> dict[str, object]:
    return cast(dict[str, object], value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return cast(list[object], value) if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def printable(value: str) -> str:
    """Recorded text is untrusted: nothing in it may steer the terminal."""
    return _STEERING.sub("\ufffd", value)
