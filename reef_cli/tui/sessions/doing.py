"""What a person does with a session: judge it or a reply of it, export it, have it forgotten. Each asks first and names the effect."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from reef_cli import output
from reef_cli.client import scenario_path
from reef_cli.forgetting import done, planned
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.sessions.listing import title_of
from reef_cli.tui.sessions.trajectory import called, content
from reef_cli.tui.widgets.ask import Ask
from reef_cli.tui.widgets.choose import Choice, Choose
from reef_cli.tui.widgets.confirm import Confirm
from reef_cli.tui.wrapping import cut

if TYPE_CHECKING:
    from daemon.records import JSONObject

_FORGET_S = 1800.0
_SHOWN = 160  # characters of a reply in a question
_FORMATS = (
    Choice("openai", "openai", "fine-tuning lines"),
    Choice("records", "records", "for `reef import`"),
    Choice("atif", "atif", "a trajectory, version 1.7"),
    Choice("sharegpt", "sharegpt", "as LLaMA-Factory reads them"),
    Choice("kto", "kto", "judged replies, as TRL reads them"),
    Choice("dpo", "dpo", "corrections, as TRL reads them"),
)


async def judge(app: App[None], daemon: Daemon, scenario: str, session: JSONObject, turn: JSONObject | None, score: float) -> bool:
    """Report on one turn's reply, or on all of a session; False: the person thought better of it."""
    word = "Good" if score > 0 else "Bad"
    if turn is None:
        what = f"Every reply of “{cut(title_of(session), 60)}” that has no score of its own."
        body: JSONObject = {"score": score, "session": output.text(session.get("id"))}
    else:
        what = f"The reply of {output.text(turn.get('release_id'), 'an import')}: {said(turn)}"
        body = {"score": score, "references": [output.text(turn.get("receipt"))]}
    note = await app.push_screen_wait(Ask(f"{word}?", what, yes=f"Say it is {word.lower()}", placeholder="why, if you like"))
    if note is None:
        return False
    if note.strip():
        body["feedback"] = {"note": note.strip()}
    answer = await daemon.post("/reef/report", body, scenario)
    references = answer.get("references")
    replies = len(references) if isinstance(references, list) else 1
    app.notify(f"{word}: {'1 reply' if replies == 1 else f'{replies} replies'}.", markup=False)
    return True


def said(turn: JSONObject) -> str:
    """A reply on one line."""
    reply = output.part(turn, "reply")
    text = content(reply.get("content")).strip()
    if not text:
        calls = [call for call in output.rows(reply, "tool_calls") if call]
        text = ", ".join(f"calls {called(call)[0]}" for call in calls) or "(nothing)"
    return cut(" ".join(text[: 4 * _SHOWN].split()), _SHOWN)


async def export(app: App[None], daemon: Daemon, scenario: str, session: str) -> None:
    """Write one session to a file."""
    form = await app.push_screen_wait(Choose("Export this session", _FORMATS, current="openai", yes="Next"))
    if form is None:
        return
    name = re.sub(r"[^\w.-]+", "-", session).strip("-.")[:60] or "session"
    typed = await app.push_screen_wait(Ask("Export to", "Secrets are taken out once more.", yes="Write", value=f"{name}.{form}.jsonl"))
    if typed is None or not typed.strip():
        return
    out = _path(typed)
    if await asyncio.to_thread(out.exists) and not await app.push_screen_wait(
        Confirm("It exists", [f"{out} will be overwritten."], yes="Overwrite", danger=True)
    ):
        return
    summary = await daemon.save(scenario_path(scenario, "export"), {"format": form, "session": session, "summary": "true"}, out)
    lines, left_out = summary.get("lines"), summary.get("left_out")
    more = "".join(f" Left out: {count}, {reason}." for reason, count in left_out.items()) if isinstance(left_out, dict) else ""
    app.notify(output.printable(f"{lines} line{'' if lines == 1 else 's'} in {out.absolute()}.{more}"), markup=False)


async def forget(app: App[None], daemon: Daemon, scenario: str, session: str) -> bool:
    """Erase a session, after the releases that it concerns were named; False: the person thought better of it."""
    path, body = scenario_path(scenario, "forget"), {"session": session}
    plan = await daemon.post(path, {**body, "dry_run": True}, timeout_s=_FORGET_S)
    retire = False
    if any(release.get("trained") for release in output.rows(plan, "releases")):
        choices = (
            Choice("keep", "Forget", "LoRAs that were trained on it stay"),
            Choice("retire", "Forget and retire", "serve without those LoRAs, erase their weights"),
        )
        choice = await app.push_screen_wait(Choose("A LoRA cannot unlearn", choices, current="keep", yes="Next"))
        if choice is None:
            return False
        retire = choice == "retire"
    effects = [*planned(plan), "LoRAs that were trained on it serve no more." if retire else "", "This cannot be undone."]
    sentences = [output.printable(effect) for effect in effects if effect]
    if not await app.push_screen_wait(Confirm("Forget this session", sentences, yes="Forget", danger=True)):
        return False
    answer = await daemon.post(path, {**body, "retire": retire}, timeout_s=_FORGET_S)
    app.notify(output.printable(" ".join(line.strip() for line in done(answer))), markup=False)
    return True


def _path(typed: str) -> Path:
    return Path(typed.strip()).expanduser()
