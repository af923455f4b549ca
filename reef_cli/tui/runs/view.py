"""A run as rows: what it told, phase by phase, and what comes next."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from reef_cli import output
from reef_cli.tui.runs import words
from reef_cli.tui.runs.pieces import Curve, Piece, Played, TaskLine
from reef_cli.tui.runs.story import Phase, Split, Story
from reef_cli.tui.sessions.blocks import Words
from reef_cli.tui.widgets.feed import Row
from reef_cli.tui.wrapping import clean

if TYPE_CHECKING:
    from daemon.records import JSONObject

RELEASE = "release"
"""The key of the row that leads to the release."""
_TO_COME = ("evaluate", "publish")
_SHOWN = 6  # tasks of a split, while it is folded: those that came out differently, the latest of them


def heading(run: JSONObject) -> tuple[str, str, str]:
    """A run's sign and decision, their role, and facts of it."""
    word = words.word_of(run)
    release = output.text(run.get("release_id"), "")
    config = output.part(run, "config")
    facts = [output.text(run.get("recipe")), f"by {output.text(run.get('trigger'), 'someone')}", output.age(run.get("started_at"))]
    if config.get("release"):
        facts.append(f"on {output.text(config.get('release'))}")
    if config.get("promotes"):
        facts.append(f"promotes {output.text(config.get('promotes'))}")
    if config.get("dry_run"):
        facts.append("dry run")
    facts.append(f"took {words.took(seconds(run))}" if run.get("ended_at") else f"for {words.took(seconds(run))}")
    first = f"{words.SIGNS.get(word, '·')} {word}{f' {release}' if release else ''}"
    return output.printable(first), words.ROLES.get(word, ""), output.printable(" · ".join(facts))


def rows_of(run: JSONObject, story: Story, opened: Collection[str] = (), *, decision_first: bool = False) -> list[Row]:
    """The rows of a run, the newest at the bottom.

    Args:
        opened: the keys of those rows that are not folded.
        decision_first: for a run of the past: what came of it, then how.
    """
    is_over = bool(run.get("ended_at")) or bool(story.ended)
    end = _end(run, story, space=not decision_first)
    found: list[Row] = [*end, *([Words("then", "")] if end else [])] if decision_first else []
    for number, phase in enumerate(story.phases):
        found += _phase(phase, number, story, is_over)
        if phase.name == "train" and story.losses:
            found += _training(story)
        if phase.name == "evaluate":
            for name, split in story.splits.items():
                found += _split(name, split, opened)
            found += _answers(story, opened)
    if not is_over:
        seen = {phase.name for phase in story.phases}
        found += [Piece(f"next-{name}", "·", name, "", name_role="dim") for name in _TO_COME if name not in seen]
    return found if decision_first else [*found, *end]


def _phase(phase: Phase, number: int, story: Story, is_over: bool) -> list[Row]:
    runs = phase.ended_at is None and not is_over
    sign = "●" if runs else "!" if number == len(story.phases) - 1 and story.failed else "✓"
    lasted = (phase.ended_at or time.time()) - phase.began_at
    lines = [clean(phase.detail)] if phase.detail else []
    if phase.name == "select":
        lines += [clean(line) for line in words.selected(story.selected)]
    elif phase.name == "probe":
        lines = [words.probe(story.probe, output.part(story.decision, "statistics"))] if story.probe else lines
    lines += [clean(note) for note in phase.notes]
    more = tuple((line, "dim") for line in lines[1:])
    role = "accent" if runs else "bad" if sign == "!" else "good"
    return [
        Piece(f"phase{number}", sign, phase.name[:9], lines[0] if lines else "", words.took(lasted), more, role, "strong" if runs else "")
    ]


def _training(story: Story) -> list[Row]:
    share = story.step / story.steps if story.steps else 1.0
    told = f"step {story.step} of {story.steps} · loss {story.losses[0]:.2f} → {story.losses[-1]:.2f}"
    if story.trained:
        told += f" · {output.count(story.trained.get('tokens'))} tokens"
        if story.trained.get("stopped") == "time":
            told += " · stopped for time"
    elif story.speed:
        told += f" · {story.speed:.0f} tokens/s"
    return [Curve("curve", tuple(story.losses), share), Piece("steps", "", "", told, role="dim")]


def _split(name: str, split: Split, opened: Collection[str]) -> list[Row]:
    key = f"split-{name}"
    won, lost, tied = (split.count(sign) for sign in "+−=")
    found: list[Row] = [Played(key, output.printable(name), split.total, won, lost, tied, key in opened)]
    numbered = list(enumerate(split.tasks))
    shown = numbered if key in opened else [(number, task) for number, task in numbered if task.sign != "="][-_SHOWN:]
    for number, task in shown:
        own = f"{key}-{number}"
        found.append(TaskLine(own, task.sign, clean(task.name), task.before, task.after, clean(task.reply), own in opened))
    return found


def _answers(story: Story, opened: Collection[str]) -> list[Row]:
    """Unrelated prompts, answered by both: whether all the rest still sounds the same."""
    if not story.answers:
        return []
    key = "answers"
    same = sum(answer.get("before") == answer.get("after") for answer in story.answers)
    is_open = key in opened
    text = f"{same} of {len(story.answers)} unrelated prompts are answered as before {'▾' if is_open else '▸'}"
    more: list[tuple[str, str]] = []
    for answer in story.answers if is_open else ():
        more.append((clean(output.text(answer.get("prompt"), "")), "strong"))
        more += [(f"{side}: {clean(output.text(answer.get(side), '(nothing)'))}", "dim") for side in ("before", "after")]
    return [Piece(key, "", "answers", text, more=tuple(more), name_role="dim", selectable=True)]


def _end(run: JSONObject, story: Story, *, space: bool) -> list[Row]:
    """The decision and why; what it made; or how it failed."""
    facts = output.part(story.decision, "statistics")
    ended = story.ended or (run if run.get("ended_at") else {})
    word = words.word_of(ended) if ended else output.text(story.decision.get("verdict"), "")
    sentence = output.text(ended.get("sentence") or story.decision.get("sentence") or ended.get("error"), "")
    if not word:
        return []
    why = [clean(line) for line in words.statistics(facts)]
    if story.failed.get("hint"):
        why.append(clean(output.text(story.failed.get("hint"))))
    error = output.text(ended.get("error"), "")
    if error and error != sentence:
        why.append(clean(error))
    role = words.ROLES.get(word, "")
    more = tuple((line, "dim") for line in why)
    found: list[Row] = [
        Piece("decision", words.SIGNS.get(word, "·"), word[:9], clean(sentence or word), "", more, role, role or "strong", space=space)
    ]
    if release := output.text(run.get("release_id") or ended.get("release_id"), ""):
        change = clean(output.text(story.result.get("change"), ""))
        text = f"{output.printable(release)}{f' · {change}' if change else ''}"
        found.append(Piece(RELEASE, "→", "release", text, "o shows it", selectable=True, name_role="dim", role="accent"))
    return found


def seconds(run: JSONObject) -> float:
    began = output.to_seconds(run.get("started_at"))
    ended = output.to_seconds(run.get("ended_at"))
    return (ended if ended is not None else time.time()) - began if began is not None else 0.0
