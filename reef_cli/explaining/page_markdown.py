"""The page as one Markdown file. What people and models said stands in code, with longer fences than any that it holds itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reef_cli import bars, change_line, judgement, output
from reef_cli.comparison import layers
from reef_cli.explaining.story import Story, came_from, facts

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&#:!()@])")
_RUNS = re.compile(r"`+")
_SIGNS = {"removed": "-", "added": "+", "same": " "}
_OUTCOMES = {"win": "+ win", "loss": "− loss", "tie": "= tie"}
_BAR = 20


def page(story: Story) -> str:
    """The whole file."""
    sections = (
        _head(story),
        _section("What changed", _files(story)),
        _section("What it was worth", _worth(story)),
        _section("How it was trained", _curve(story)),
        _section("Task by task", _tasks(story)),
        _section("Where it comes from", _sources(story)),
        _section("The releases around it", _around(story)),
        _section("To make it again", _table(("what", "is"), [(name, _code(value)) for name, value in facts(story)])),
    )
    return "\n".join(line for section in sections for line in section)


def prose(value: JSON) -> str:
    """A text on one line in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(output.printable(output.text(value, "")).split())).replace("www.", r"www\.")


def _code(value: JSON) -> str:
    """A text on one line as code, fit for a table's cell."""
    text = " ".join(output.printable(output.text(value, "")).split())
    fence = "`" * (max((len(run) for run in _RUNS.findall(text)), default=0) + 1)
    return f"{fence} {text} {fence}".replace("|", r"\|") if text else ""


def _fenced(value: JSON, language: str = "text") -> list[str]:
    text = output.printable_lines(output.text(value, ""))
    fence = "`" * max(3, max((len(run) for run in _RUNS.findall(text)), default=0) + 1)
    return [f"{fence}{language}", *text.splitlines(), fence, ""]


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""] if lines else []


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Cells as they are."""
    if not rows:
        return []
    return [f"| {' | '.join(row)} |" for row in (header, tuple("---" for _ in header), *rows)] + [""]


def _head(story: Story) -> list[str]:
    release = story.release
    recipe = output.text(output.part(release, "recipe").get("name"), output.text(release.get("operation"), ""))
    standing = "serving" if release.get("current") else output.text(release.get("state"), "")
    found = [
        f"# {prose(story.name)} of {prose(story.scenario)}",
        "",
        f"**{prose(change_line.line(release))}**",
        "",
        f"{prose(recipe)}, {prose(standing)}",
        "",
    ]
    return [*found, prose(release.get("verdict")), ""] if release.get("verdict") else found


def _files(story: Story) -> list[str]:
    found: list[str] = []
    for change in story.files:
        found += [f"### {prose(change.get('path'))} ({prose(change.get('status'))})", ""]
        lines = [line for hunk in output.rows(change, "hunks") for line in output.rows(hunk, "lines")]
        found += _fenced("\n".join(_SIGNS.get(output.text(line.get("kind")), " ") + _whole(line) for line in lines), "diff")
    if story.left_out:
        found += ["Demonstrations and serving hints changed too. They are taken from sessions, and left out here.", ""]
    found += _table(
        ("setting", "before", "after"),
        [(_code(one.get("name")), _code(one.get("before")), _code(one.get("after"))) for one in output.rows(story.change, "settings")],
    )
    before, after = output.part(story.change, "lora_before"), output.part(story.change, "lora_after")
    if before.get("id") != after.get("id"):
        rows: list[tuple[str, ...]] = [(name, _code(before.get(name)), _code(after.get(name))) for name in ("rank", "alpha", "size_bytes")]
        for layer, *norms in layers(story.change):
            rows.append((prose(layer), *(f"{norm:.3g}" if norm is not None else "" for norm in norms)))
        found += _table(("LoRA", "before", "after"), rows)
    return found


def _whole(line: JSONObject) -> str:
    segments = line.get("segments")
    pieces = [str(one[0]) for one in segments if isinstance(one, list) and one] if isinstance(segments, list) else []
    return output.printable("".join(pieces))


def _curve(story: Story) -> list[str]:
    """Markdown has no pictures of its own: ten steps of the curve as bars."""
    losses = story.losses
    if len(losses) < 2:
        return []
    chosen = [losses[round(place * (len(losses) - 1) / 9)] for place in range(10)] if len(losses) > 10 else list(losses)
    most = max(loss for _, loss in chosen)
    return _fenced("\n".join(f"step {step:5} {bars.bar(loss, most, 2 * _BAR):{2 * _BAR}} {loss:.4g}" for step, loss in chosen))


def _worth(story: Story) -> list[str]:
    rows = [
        (
            split.name,
            split.points,
            split.tally,
            f"`{bars.outcomes(split.wins, split.losses, split.ties, _BAR)}`",
            judgement.percent(split.tokens) if split.tokens is not None else "",
        )
        for split in judgement.splits(story.evaluation)
    ]
    table = _table(("tasks", "score before → after", "outcomes", "", "tokens"), rows)
    return [*table, *(line for sentence in judgement.sentences(story.evaluation) for line in (prose(sentence), ""))]


def _tasks(story: Story) -> list[str]:
    found: list[str] = []
    for split in judgement.SPLITS:
        played = judgement.tasks(story.evaluation, split)
        found += [f"### {split}", ""] if played else []
        for task in played:
            summary = f"{_OUTCOMES[task.outcome]} {task.change} {_plain(task.name)} {_plain(task.prompt)}"
            found += _folded(summary, ("before:", task.before.get("reply")), ("after:", task.after.get("reply")))
    unrelated = output.rows(story.evaluation, "unrelated")
    found += ["### Answers to unrelated prompts", ""] if unrelated else []
    for one in unrelated:
        found += _folded(_plain(one.get("prompt")), ("before:", one.get("before")), ("after:", one.get("after")))
    return found


def _folded(summary: str, *texts: tuple[str, JSON]) -> list[str]:
    """Texts that are shown on demand. `summary` and the titles are markup already."""
    blocks = [line for title, text in texts for line in (title, "", *_fenced(text))]
    return [f"<details><summary>{summary}</summary>", "", *blocks, "</details>", ""]


def _plain(value: JSON) -> str:
    """A text inside of HTML inside of Markdown."""
    text = " ".join(output.printable(output.text(value, "")).split())
    return "".join(f"&#{ord(letter)};" if letter in "&<>\"'`*_[]\\|~:@!()#" else letter for letter in text).replace("www.", "www&#46;")


def _sources(story: Story) -> list[str]:
    found = [came_from(story), ""]
    if not story.with_sessions:
        return found
    sessions = output.rows(story.release, "sessions")
    found += _table(
        ("session", "turns", "begins"),
        [(_code(one.get("id")), output.text(one.get("receipts")), _code(one.get("title"))) for one in sessions],
    )
    for exchange in story.exchanges:
        summary = _plain(output.shorten(exchange.prompt, 160))
        found += _folded(summary, ("asked:", exchange.prompt), ("answered:", exchange.reply))
    return found


def _around(story: Story) -> list[str]:
    rows = []
    for one in story.around:
        name = prose(one.get("release_id"))
        standing = "serving" if one.get("current") else output.text(one.get("state"), "")
        rows.append((f"**{name}**" if one.get("release_id") == story.name else name, prose(change_line.line(one)), prose(standing)))
    return _table(("release", "what changed", ""), rows)
