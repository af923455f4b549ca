"""What the boxes of the tab `Engine` say. Each function takes the answers of `/reef/engine` and `/reef/status` and a width in cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from reef_cli import output
from reef_cli.tui.widgets.bars import area, share_bar
from reef_cli.tui.widgets.details import Section, laid_out

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_STREAMS = 8
_MISSES = 2
_ENGINE = "engine"
"""What the daemon calls the process that computes."""
_SIGNS = {"ready": ("●", "$text-success"), "starting": ("◐", "$text-accent"), "restarting": ("▲", "$text-warning")}


def speed(engine: JSONObject, width: int, height: int) -> Content:
    """Replies written and prompts read, as columns; `height` is that of the first, the second has half of it."""
    rates, lines = output.part(engine, "rates"), list[Content]()
    for label, name, style, high in (
        ("written", "generated", "$text-primary", height),
        ("read", "read", "$text-secondary", (height + 1) // 2),
    ):
        values = _numbers(rates.get(name))
        now = f"{values[-1]:,.0f}/s" if values else "–"
        *upper, last = area(values, max(8, width - 18), high, 10, style)
        lines += [Content.assemble(" " * 8, line) for line in upper]
        if lines and height > 1:
            lines.insert(len(lines) - len(upper), Content(""))
        lines.append(Content.assemble((label.ljust(8), "$text-muted"), last, (now.rjust(10), "bold")))
    return Content("\n").join(lines)


def speed_note(engine: JSONObject, width: int) -> str:
    """How long that is, and the most and the mean of it."""
    values = _numbers(output.part(engine, "rates").get("generated"))[-max(8, width - 18) :]
    if not values:
        return "measured while the app is open"
    busy = [value for value in values if value]
    mean = f" · {sum(busy) / len(busy):,.0f}/s while it wrote" if busy else ""
    return f"the last {_span(len(values))} · most {max(values):,.0f}/s{mean}"


def streams(engine: JSONObject, status: JSONObject, width: int) -> Content:
    """Who is being answered, by session."""
    facts, rows = output.part(engine, "engine"), output.rows(engine, "streams")
    active, queued = facts.get("active"), facts.get("queued")
    head = Content.assemble(
        (output.text(engine.get("in_flight"), "0"), "bold"),
        " open · ",
        (output.text(active, "0"), "bold"),
        " computing · ",
        (output.text(queued, "0"), "bold $text-warning" if queued else "bold"),
        " waiting",
    )
    lines = [head]
    for row in rows[:_STREAMS]:
        session = output.text(row.get("session"), "no session")
        several = f" ×{row.get('requests')}" if row.get("requests") not in (None, 1) else ""
        line = Content.assemble(
            ("▸ ", "$text-success"),
            output.printable(output.text(row.get("scenario"))),
            f" {output.text(row.get('release_id'))}",
            several,
            (f"  {output.printable(session)}", "$text-muted"),
        )
        lines.append(line.truncate(width, ellipsis=True))
    if len(rows) > _STREAMS:
        lines.append(Content.styled(f"  and {len(rows) - _STREAMS} more", "$text-muted"))
    if not rows:
        lines.append(Content.styled("Nobody asks. Point an agent at", "$text-muted"))
        lines.append(Content(output.printable(f"{output.text(status.get('base_url'))}/v1")))
    run = output.part(engine, "learn").get("run_id")
    if run:
        lines.append(Content.assemble(("◐ ", "$text-accent"), f"learning beside it: {output.printable(output.text(run))}"))
    return Content("\n").join(lines)


def model(engine: JSONObject, status: JSONObject, width: int) -> Content:
    """What serves: model, window, LoRAs, and how it learns."""
    facts, learn = output.part(engine, "engine"), output.part(status, "learn")
    state = output.text(facts.get("state"))
    sign, style = _SIGNS.get(state, ("▲", "$text-error"))
    detail = output.text(facts.get("detail"), "")
    kind = [output.text(facts.get(name), "") for name in ("quantisation", "architecture")]
    size = [output.size(facts.get("size_bytes"))] if facts.get("size_bytes") else []
    loras = [lora[:12] for lora in texts(facts, "loras")]
    restarts = facts.get("restarts")
    found: list[tuple[str, Content | str]] = [
        ("name", _cut(output.text(facts.get("model")), width - 10)),
        ("state", Content.assemble((f"{sign} {state}", style), output.printable(f" {detail}" if detail else ""))),
        ("kind", _cut(" · ".join([part for part in kind if part] + size) or output.text(facts.get("kind")), width - 10)),
        ("window", f"{output.count(facts.get('context_tokens'))} tokens"),
        ("LoRAs", _cut(", ".join(loras), width - 10) if loras else Content.styled("none loaded", "$text-muted")),
        ("learning", _cut(f"{output.text(learn.get('mode'))}, {output.text(learn.get('recipe'))}", width - 10)),
    ]
    if restarts:
        found.append(("restarts", Content.styled(f"▲ {restarts} since the daemon started", "$text-warning")))
    return laid_out([Section(facts=found)])


def cache(engine: JSONObject, status: JSONObject, width: int) -> Content:
    """How much of the prompts need not be read again, and why not more."""
    facts = output.part(output.part(engine, "engine"), "cache")
    share = facts.get("reused_share")
    if not isinstance(share, int | float):
        return Content.styled("No prompt has been read yet.", "$text-muted")
    lines = [
        Content.assemble(share_bar(share, max(8, width - 8)), (f" {100 * share:.0f} %", "bold")),
        Content.assemble(
            f"{output.count(facts.get('reused_tokens'))} tokens found", (f" · {output.count(facts.get('read_tokens'))} read", "$text-muted")
        ),
    ]
    misses = output.part(facts, "misses")
    counted = ", ".join(f"{reason} {count}" for reason, count in misses.items() if count)
    lines.append(Content.assemble(("read again: ", "$text-muted"), _cut(counted, width - 12) if counted else "never"))
    for miss in output.rows(engine, "last_misses")[:_MISSES]:
        text = f"{output.age(miss.get('at'))} {output.text(miss.get('reason'))} · {output.count(miss.get('read_tokens'))} tokens"
        lines.append(Content.assemble(("↻ ", "$text-warning"), _cut(text, width - 2)))
    return Content("\n").join(lines)


def cache_note(engine: JSONObject) -> str:
    """What is kept of conversations that have no place in the engine now."""
    facts = output.part(output.part(engine, "engine"), "cache")
    return (
        f"{output.size(facts.get('held_bytes'))} of {output.size(facts.get('limit_bytes'))} kept aside" if facts.get("limit_bytes") else ""
    )


def memory(engine: JSONObject, status: JSONObject, width: int) -> Content:
    """Each process as a bar of the machine's memory; below, the disk."""
    total, lines = engine.get("memory_bytes"), list[Content]()
    weights = output.part(engine, "engine").get("size_bytes")
    whole = float(total) if isinstance(total, int | float) and total else 1.0
    room = max(4, width - 24)
    for process in output.rows(engine, "processes"):
        taken = process.get("rss_bytes")
        share = float(taken) / whole if isinstance(taken, int | float) else 0.0
        name = output.printable(output.text(process.get("what")))
        lines.append(
            Content.assemble(
                (_cut(name, 12).ljust(13), "$text-muted"), share_bar(share, room, "$text-secondary"), output.size(taken).rjust(11)
            )
        )
        if name == _ENGINE and isinstance(weights, int) and isinstance(taken, int) and taken > 2 * weights:
            long = f"  {output.size(weights)} is the model, the rest room for conversations"
            short = f" {output.size(weights)} model, else conversations"
            lines.append(Content.styled(long if len(long) <= width else short, "$text-muted"))
    disk = output.part(status, "disk")
    lines.append(
        Content.assemble(
            ("disk".ljust(13), "$text-muted"),
            output.size(disk.get("used_bytes")),
            (f", {output.size(disk.get('free_bytes'))} free", "$text-muted"),
        )
    )
    return Content("\n").join(lines)


def warnings(status: JSONObject) -> list[str]:
    """What the daemon warns of, and what of the installed agents is to be taken over."""
    return [*texts(status, "warnings"), *(note for agent in output.rows(status, "agents") for note in texts(agent, "notes"))]


def texts(answer: JSONObject, name: str) -> list[str]:
    """The list of texts `name` of an answer."""
    found = answer.get(name)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def _numbers(value: JSON) -> list[float]:
    return [float(item) for item in value if isinstance(item, int | float)] if isinstance(value, list) else []


def _cut(text: str, width: int) -> str:
    return output.shorten(output.printable(text), max(4, width))


def _span(seconds: int) -> str:
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
