"""The page as one HTML file. Every text in it was said by somebody: none is taken for markup, and the page may run and load nothing."""

from __future__ import annotations

import datetime
import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reef_cli import change_line, judgement, output
from reef_cli.comparison import layers
from reef_cli.explaining.curve import bar, loss_curve, outcome_bar
from reef_cli.explaining.story import Story, came_from, facts
from reef_cli.explaining.style import STYLE

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_NOTHING_LOADS = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_SIGNS = {"removed": "− ", "added": "+ ", "same": "  "}
_STATES = {"held": "○ held", "rejected": "× rejected", "promoted": "↑ promoted"}
_OUTCOMES = {"win": ("+ win", "win-text"), "loss": ("− loss", "loss-text"), "tie": ("= tie", "soft")}


def page(story: Story) -> str:
    """The whole file."""
    title = f"{story.name} of {story.scenario}"
    parts = (
        _head(story),
        _section("What changed", _files(story) + _lora(story)),
        _section("What it was worth", _worth(story)),
        _section("How it was trained", _curve(story)),
        _section("Task by task", _tasks(story) + _unrelated(story)),
        _section("Where it comes from", _sources(story)),
        _section("The releases around it", _around(story)),
        _section("To make it again", _table(facts(story))),
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_LOADS}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def _text(value: JSON) -> str:
    """Any text on one line, as text."""
    return html.escape(output.printable(output.text(value, "")))


def _block(value: JSON) -> str:
    """Any text with its lines, as text."""
    return html.escape(output.printable_lines(output.text(value, "")))


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>\n{content}</section>" if content else ""


def _head(story: Story) -> str:
    release = story.release
    made = output.to_seconds(release.get("recorded_at"))
    when = datetime.datetime.fromtimestamp(made, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC") if made is not None else ""
    standing = "● serving" if release.get("current") else _STATES.get(output.text(release.get("state")), "")
    recipe = output.text(output.part(release, "recipe").get("name"), output.text(release.get("operation"), ""))
    soft = " · ".join(_text(one) for one in (f"scenario {story.scenario}", recipe, when) if one)
    badge = f' <span class="badge">{_text(standing)}</span>' if standing else ""
    verdict = f"<p>{_text(release.get('verdict'))}</p>" if release.get("verdict") else ""
    line = f'<p class="lead">{_text(change_line.line(release))}</p>'
    return f'<header><h1>{_text(story.name)}{badge}</h1>{line}<p class="soft">{soft}</p>{verdict}</header>'


def _files(story: Story) -> str:
    found = ""
    for one in story.files:
        found += f'<h3>{_text(one.get("path"))} <span class="soft">{_text(one.get("status"))}</span></h3>{_diff(one)}'
    if story.left_out:
        found += '<p class="soft">Demonstrations and serving hints changed too. They are taken from sessions, and left out here.</p>'
    settings = [
        (output.text(one.get("name")), " → ".join(output.text(one.get(side), "unset") for side in ("before", "after")))
        for one in output.rows(story.change, "settings")
    ]
    return found + (_hidden(f"Settings that differ: {len(settings)}", _table(settings)) if settings else "")


def _diff(change: JSONObject) -> str:
    lines = ""
    for number, hunk in enumerate(output.rows(change, "hunks")):
        lines += '<span class="line soft">…</span>' if number else ""
        for line in output.rows(hunk, "lines"):
            kind = output.text(line.get("kind"))
            lines += f'<span class="line {_text(kind)}">{_SIGNS.get(kind, "  ")}{_segments(line, kind)}</span>'
    return f"<pre>{lines}</pre>"


def _segments(line: JSONObject, kind: str) -> str:
    segments = line.get("segments")
    pieces = (
        [(str(one[0]), bool(one[1])) for one in segments if isinstance(one, list) and len(one) == 2] if isinstance(segments, list) else []
    )
    tag = {"removed": "del", "added": "ins"}.get(kind)
    whole = all(changed for _, changed in pieces)  # then the line's sign says so
    return "".join(f"<{tag}>{_text(text)}</{tag}>" if changed and tag and not whole else _text(text) for text, changed in pieces)


def _lora(story: Story) -> str:
    before, after = output.part(story.change, "lora_before"), output.part(story.change, "lora_after")
    if before.get("id") == after.get("id"):
        return ""
    rows = [(name, output.text(before.get(name)), output.text(after.get(name))) for name in ("rank", "alpha")]
    rows.append(("size", output.size(before.get("size_bytes")), output.size(after.get("size_bytes"))))
    table = "".join(f"<tr><th>{_text(name)}</th><td>{_text(old)}</td><td>{_text(new)}</td></tr>" for name, old, new in rows)
    header = "<tr><th></th><th>before</th><th>after</th></tr>"
    shown = layers(story.change)
    most = max((norm for _, *norms in shown for norm in norms if norm is not None), default=0.0)
    norms = "".join(f"<tr><th>{_text(name)}</th>{_norm(old, most, 'before')}{_norm(new, most, 'after')}</tr>" for name, old, new in shown)
    said = f"What it adds to each of {len(shown)} layers: the norm of the change of its weights"
    return f"<h3>LoRA</h3><table>{header}{table}</table>" + (_hidden(said, f"<table>{header}{norms}</table>") if shown else "")


def _hidden(summary: str, content: str) -> str:
    """Markup that is shown on demand."""
    return f"<details><summary>{_text(summary)}</summary><div>{content}</div></details>"


def _norm(norm: float | None, most: float, kind: str) -> str:
    return f'<td>{bar(norm, most, kind)}<span class="soft">{norm:.3g}</span></td>' if norm is not None else "<td></td>"


def _curve(story: Story) -> str:
    curve = loss_curve(story.losses)
    return f"<figure>{curve}<figcaption>Training loss, step by step.</figcaption></figure>" if curve else ""


def _worth(story: Story) -> str:
    evaluation = story.evaluation
    rows = ""
    for split in judgement.splits(evaluation):
        cost = judgement.percent(split.tokens) if split.tokens is not None else ""
        bars = bar(split.before, split.tasks, "before") + bar(split.after, split.tasks, "after")
        rows += (
            f'<tr><th>{split.name}<br><span class="soft">{judgement.SPLITS[split.name]}</span></th><td>{bars}{split.points}</td>'
            f'<td>{outcome_bar(split.wins, split.losses, split.ties)}{split.tally}</td><td class="number">{cost}</td></tr>'
        )
    table = (
        f'<table><tr><th>tasks</th><th>score before and after</th><th>outcomes</th><th class="number">tokens</th></tr>{rows}</table>'
        if rows
        else ""
    )
    return table + "".join(f"<p>{_text(sentence)}</p>" for sentence in judgement.sentences(evaluation))


def _tasks(story: Story) -> str:
    found = ""
    for split in judgement.SPLITS:
        played = judgement.tasks(story.evaluation, split)
        found += f"<h3>{split}</h3>" if played else ""
        found += "".join(_task(task) for task in played)
    return found


def _task(task: judgement.Task) -> str:
    word, kind = _OUTCOMES[task.outcome]
    summary = f'<span class="{kind}">{word}</span> {task.change} <code>{_text(task.name)}</code> {_text(task.prompt)}'
    sides = [(name, judgement.score(one.get("score")), one) for name, one in (("before", task.before), ("after", task.after))]
    return _folded(summary, *((f"{name}: {score} {_text(one.get('detail'))}", one.get("reply")) for name, score, one in sides))


def _unrelated(story: Story) -> str:
    rows = "".join(
        _folded(_text(one.get("prompt")), ("before", one.get("before")), ("after", one.get("after")))
        for one in output.rows(story.evaluation, "unrelated")
    )
    return f"<h3>Answers to unrelated prompts, before and after</h3>{rows}" if rows else ""


def _folded(summary: str, *sides: tuple[str, JSON]) -> str:
    """Two texts side by side, shown on demand. `summary` and the titles are markup already."""
    columns = "".join(f'<div><p class="soft">{title}</p><pre>{_block(text)}</pre></div>' for title, text in sides)
    return f'<details><summary>{summary}</summary><div class="pair">{columns}</div></details>'


def _sources(story: Story) -> str:
    found = f"<p>{_text(came_from(story))}</p>"
    if not story.with_sessions:
        return found
    sessions = output.rows(story.release, "sessions")
    if sessions:
        found += _table((output.text(one.get("id")), output.text(one.get("title"), "")) for one in sessions)
    for one in story.exchanges:
        found += _folded(_text(output.shorten(one.prompt, 160)), ("asked", one.prompt), ("answered", one.reply))
    return found


def _around(story: Story) -> str:
    rows = ""
    for one in story.around:
        own = ' class="own"' if one.get("release_id") == story.name else ""
        standing = "● serving" if one.get("current") else _STATES.get(output.text(one.get("state")), "")
        rows += f"<tr{own}><td>{_text(one.get('release_id'))}</td><td>{_text(change_line.line(one))}</td><td>{_text(standing)}</td></tr>"
    return f"<table>{rows}</table>" if rows else ""


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "<table>" + "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows) + "</table>"
