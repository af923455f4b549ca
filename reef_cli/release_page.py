"""The page about one release: what changed, why, what it was worth, where it comes from."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from reef_cli import bars, change_line, judgement, output

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_LABEL = 15
_WIDEST = 110
_SESSIONS = 8
_SHORTEST_TITLE = 12
_DIGITS = 16  # of a hash; the whole one is in the JSON
_SETTINGS = 12
_BAR = 24
_MUTATIONS = 30
_EVIDENCE = 3
_SIGNS = {"create": "+", "update": "~", "remove": "−"}
_STATES = {"held": "○ held", "rejected": "× rejected", "promoted": "↑ promoted"}


def page(answer: JSONObject, scenario: str) -> Iterator[str]:
    """Its lines, no wider than the terminal."""
    name = output.text(answer.get("release_id"))
    width = min(output.columns() or _WIDEST, _WIDEST)
    facts = [output.paint(name, output.BOLD), *_standing(answer), output.age(answer.get("recorded_at"))]
    yield " · ".join(facts)
    yield from _wrapped(change_line.line(answer), width) or ["no change"]
    yield ""
    for label, lines in _sections(answer, width - _LABEL - 1):
        shown = [part for line in lines for part in _wrapped(line, width - _LABEL - 1)]
        for number, line in enumerate(shown):
            yield f"{output.paint((label if number == 0 else '').ljust(_LABEL), output.DIM)} {line}".rstrip()
    yield ""
    yield output.paint(_next(answer, name, scenario), output.DIM)


def _sections(answer: JSONObject, width: int) -> Iterator[tuple[str, list[str]]]:
    """Label → lines, without what there is nothing to say of."""
    for label, lines in (
        ("Why", _why(answer)),
        ("Changes", _mutations(answer)),
        ("Made", _made(answer)),
        ("Evaluation", list(_evaluation(answer))),
        ("Learned from", list(_sessions(answer, width))),
        ("LoRA", _lora(answer)),
        ("Files", _files(answer)),
        ("Base model", _base(answer)),
        ("Settings", _settings(answer)),
        ("Commit", [output.text(answer.get("commit_id"), "")]),
        ("Later", _later(answer)),
    ):
        shown = [line for line in lines if line]
        if shown:
            yield label, shown


def _wrapped(line: str, width: int) -> list[str]:
    """A number and its percent sign stay together."""
    parts = textwrap.wrap(output.printable(line).replace(" %", "\u00a0%"), width, subsequent_indent="  ", break_on_hyphens=False)
    return [part.replace("\u00a0", " ") for part in parts]


def _standing(answer: JSONObject) -> list[str]:
    found = ["● serving"] if answer.get("current") else []
    state = output.text(answer.get("state"), "")
    if state in _STATES:
        found.append(_STATES[state] + (f" as {output.text(answer.get('promoted_as'))}" if answer.get("promoted_as") else ""))
    found += ["◆ pinned"] if answer.get("pinned") else []
    if answer.get("aged"):
        found.append(f"aged: it was compared with {output.text(answer.get('parent_release_id'))}, and something else serves now")
    return [*found, "weights collected: it cannot serve again"] if answer.get("weights_collected") else found


def _why(answer: JSONObject) -> list[str]:
    verdict, reason = output.text(answer.get("verdict"), ""), output.text(output.part(answer, "tasks").get("reason"), "")
    return [verdict, f"Proposed because of {reason[:1].lower()}{reason[1:]}" if reason else ""]


def _mutations(answer: JSONObject) -> list[str]:
    """Each change of the harness with its reason and author, as the release says them."""
    found = output.rows(answer, "mutations")
    lines = [f"{_SIGNS.get(output.text(one.get('kind')), ' ')} {output.text(one.get('entry'))}  {said(one)}".rstrip() for one in found]
    return [*lines[:_MUTATIONS], f"… {_count(len(lines) - _MUTATIONS, 'more change')} (--json)" if len(lines) > _MUTATIONS else ""]


def said(one: JSONObject) -> str:
    """`because it failed twice · ace, from ses_1, ses_2`"""
    reason, author = output.text(one.get("reason"), ""), asked_by(output.text(one.get("author"), ""))
    named = one.get("evidence", one.get("sessions"))
    evidence = [each for each in named if isinstance(each, str) and each not in author] if isinstance(named, list) else []
    told = ", ".join(evidence[:_EVIDENCE]) + (f" and {len(evidence) - _EVIDENCE} more" if len(evidence) > _EVIDENCE else "")
    by = ", ".join(part for part in (f"by {author}" if author else "", f"from {told}" if told else "") if part)
    return " · ".join(part for part in (f"because: {reason}" if reason else "", by) if part)


def _made(answer: JSONObject) -> list[str]:
    recipe, run = output.part(answer, "recipe"), output.part(answer, "run")
    how = [output.text(answer.get("operation"), "")]
    how += [f"by the recipe {output.text(recipe.get('name'))}"] if recipe else []
    how += [f"on {output.text(answer.get('parent_release_id'))}"] if answer.get("parent_release_id") else []
    how += [f"with the content of {output.text(answer.get('restores'))}"] if answer.get("restores") else []
    who = asked_by(output.text(answer.get("who"), ""))
    how += [f"(asked for by {who})"] if who else []
    lines = [" ".join(how)]
    if answer.get("run_id"):
        took = judgement.number(run.get("ended_at")) - judgement.number(run.get("started_at"))
        more = [f"started by {output.text(run.get('trigger'))}"] if run.get("trigger") else []
        more += [f"took {_duration(took)}"] if run.get("ended_at") else []
        more += [f"seed {output.text(answer.get('seed'))}"] if answer.get("seed") is not None else []
        lines.append(" · ".join([output.text(answer.get("run_id")), *more]))
    return lines


def asked_by(who: str) -> str:
    """Who wanted it; empty where the daemon made it by itself: the first release, and what a run brings."""
    return "" if who == "daemon" or who.startswith("run ") else who


def _evaluation(answer: JSONObject) -> Iterator[str]:
    evaluation = output.part(answer, "tasks")
    for split in judgement.splits(evaluation):
        tokens = f" · tokens {judgement.percent(split.tokens)}" if split.tokens is not None and round(split.tokens, 2) else ""
        sides = ((split.before, "before"), (split.after, "after"))
        yield f"{split.name:9} {split.points}: {split.tally}{tokens}"
        for value, side in sides:
            yield f"{'':9} {bars.bar(value, split.tasks, _BAR):·<{_BAR}} {side}"
    yield from judgement.sentences(evaluation)


def _sessions(answer: JSONObject, width: int) -> Iterator[str]:
    sessions = output.rows(answer, "sessions")
    records = answer.get("records")
    if not isinstance(records, list) or not records:
        return
    yield f"{_count(len(records), 'record')} of {_count(len(sessions), 'session')}"
    for one in sessions[:_SESSIONS]:
        turns = one.get("receipts")
        facts = f"{output.text(one.get('id'))}  {_count(turns if isinstance(turns, int) else 0, 'turn')}  "
        yield facts + output.shorten(output.text(one.get("title"), "without a text"), max(_SHORTEST_TITLE, width - len(facts)))
    if len(sessions) > _SESSIONS:
        yield f"… {_count(len(sessions) - _SESSIONS, 'more session')} (--json)"
    gone = answer.get("records_gone")
    if isinstance(gone, int) and gone:
        yield f"{_count(gone, 'record')} no longer stored: forgotten, or past what is kept"


def _lora(answer: JSONObject) -> list[str]:
    for artifact in output.rows(answer, "artifacts"):
        if artifact.get("kind") == "lora":
            details = output.part(artifact, "details")
            modules = details.get("modules")
            names = ", ".join(output.text(one) for one in modules) if isinstance(modules, list) else ""
            size = output.size(output.part(answer, "sizes").get("lora_bytes") or artifact.get("size_bytes"))
            facts = [f"rank {output.text(details.get('rank'))}", size, f"of {names}" if names else ""]
            return [" · ".join(fact for fact in facts if fact), f"sha256 {output.text(artifact.get('content_id'))[:_DIGITS]}…"]
    return []


def _files(answer: JSONObject) -> list[str]:
    files = output.part(answer, "files")
    return [f"{path}  {output.size(len(output.text(text, '').encode(errors='replace')))}" for path, text in files.items()]


def _base(answer: JSONObject) -> list[str]:
    base = output.part(answer, "base")
    facts = [output.text(base.get(name), "") for name in ("model", "quantisation", "architecture")]
    digest = output.text(base.get("sha256"), "")
    return [" · ".join(fact for fact in facts if fact), f"sha256 {digest[:_DIGITS]}…" if digest else ""]


def _settings(answer: JSONObject) -> list[str]:
    settings = {**output.part(answer, "engine"), **output.part(output.part(answer, "recipe"), "settings")}
    shown = [f"{name} {_value(value)}" for name, value in settings.items() if value not in (None, "", [], {})]
    return [" · ".join(shown[:_SETTINGS]), f"… {len(shown) - _SETTINGS} more (--json)" if len(shown) > _SETTINGS else ""]


def _value(value: JSON) -> str:
    return output.shorten(output.text(value), 40)


def _later(answer: JSONObject) -> list[str]:
    later = answer.get("later")
    return [f"{', '.join(output.text(one) for one in later)} brought its content back"] if isinstance(later, list) and later else []


def _next(answer: JSONObject, name: str, scenario: str) -> str:
    more = "" if scenario == "default" else f" -s {scenario}"
    before = output.text(answer.get("parent_release_id"), "")
    shown = [f"reef diff {before} {name}{more}"] if before else []
    shown.append(f"reef explain {name}{more}")
    if answer.get("state") == "held":
        shown.append(f"reef promote {name}{more}")
    elif answer.get("state") == "published" and not answer.get("current"):
        shown.append(f"reef rollback {name}{more}")
    return "Next: " + " · ".join(shown)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _count(value: int, word: str) -> str:
    return f"{value} {word if value == 1 else word + 's'}"
