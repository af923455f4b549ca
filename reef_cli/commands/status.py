"""`reef status`: the state of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import output
from reef_cli.client import Client
from reef_cli.locations import client_settings
from reef_cli.options import AsJSON

if TYPE_CHECKING:
    from daemon.records import JSONObject


def status(as_json: AsJSON = False) -> None:
    """It also says where to point an editor or an SDK.

    \b
    Examples:
      reef status
      reef status --json
    """
    client = Client()
    answer = client.get("/reef/status")
    if as_json:
        output.print_json(answer)
        return
    url = output.text(answer.get("base_url"), client.daemon.url)
    started = output.age(answer.get("started_at"))
    print(f"Reef {output.text(answer.get('version'))} at {url}, process {client.daemon.pid}, started {started}")
    engine = output.part(answer, "engine")
    for label, value in client_settings(url, client.home, output.printable(output.text(engine.get("model")))):
        print(f"  {label:16} {value}")
    print(f"  Engine           {_engine(engine)}")
    print(f"  Window           {_window(engine)}")
    for line in _cache(output.part(engine, "cache")):
        print(f"  Prefix cache     {line}")
    learn = output.part(answer, "learn")
    print(f"  Learning         {output.text(learn.get('mode'))}, recipe {output.text(learn.get('recipe'))}")
    disk = output.part(answer, "disk")
    print(f"  Disk             {output.size(disk.get('used_bytes'))} used, {output.size(disk.get('free_bytes'))} free")
    retention = output.part(answer, "retention")
    if retention.get("removed_sessions"):
        removed = f"{output.count(retention['removed_sessions'])} old sessions, {output.count(retention.get('removed_records'))} records"
        print(f"  Removed          {removed}, last {output.age(retention.get('removed_at'))}")
    for warning in _texts(answer, "warnings"):
        print(output.paint(f"  Warning          {warning}", output.YELLOW))
    print()
    header = ("scenario", "serves", "since", "sessions", "replies", "reports", "what changed")
    rows = [_scenario(item) for item in output.rows(answer, "scenarios")]
    output.print_table(header, rows, "No scenario yet: the first request makes one.")
    for item in output.rows(answer, "scenarios"):
        for note in _notes(item):
            print(note)
    for agent in output.rows(answer, "agents"):
        for note in _texts(agent, "notes"):
            print(note)


def _engine(engine: JSONObject) -> str:
    parts = [output.text(engine.get("state"))]
    parts.append(f"{output.text(engine.get('active'), '0')} active, {output.text(engine.get('queued'), '0')} queued")
    if engine.get("restarts"):
        parts.append(f"{output.text(engine.get('restarts'))} restarts")
    if engine.get("detail"):
        parts.append(output.text(engine.get("detail")))
    return " · ".join(parts)


def _window(engine: JSONObject) -> str:
    """How long a conversation may be, and how the model calls tools."""
    tokens, form = engine.get("context_tokens"), output.text(engine.get("tool_format"), "")
    parts = [f"{tokens:,} tokens" if isinstance(tokens, int) else "not known"]
    if form:
        parts.append(f"tool calls as {form}")
    return output.printable(" · ".join(parts))


def _cache(cache: JSONObject) -> list[str]:
    """One line, once a prompt has been read by an engine that says so."""
    share = cache.get("reused_share")
    if not isinstance(share, int | float):
        return []
    parts = [f"{100 * share:.0f} % of prompt tokens reused"]
    if cache.get("limit_bytes"):
        parts.append(f"{output.size(cache.get('held_bytes'))} of {output.size(cache.get('limit_bytes'))} held")
    misses = [f"{reason} {output.text(count)}" for reason, count in output.part(cache, "misses").items()]
    if misses:
        parts.append(f"read again: {', '.join(misses)}")
    return [output.printable(" · ".join(parts))]


def _scenario(item: JSONObject) -> tuple[str, ...]:
    return (
        output.text(item.get("name")),
        output.text(item.get("release_id")),
        output.age(item.get("published_at")),
        output.text(item.get("sessions")),
        output.text(item.get("records")),
        output.text(item.get("reports")),
        output.text(item.get("change"), ""),
    )


def _notes(item: JSONObject) -> list[str]:
    """What a scenario's row has no room for: what waits for a person, what runs, what failed."""
    name = output.text(item.get("name"))
    notes = [f"{name}: {release} is held; look: reef diff head {release} -s {name}" for release in _texts(item, "held")]
    run = output.part(item, "run")
    if run:
        notes.append(
            f"{name}: run {output.text(run.get('run_id', run.get('id')))} is at {output.text(run.get('phase'))}; follow: reef runs"
        )
    failed = output.part(item, "last_failure")
    if failed:
        notes.append(f"{name}: the last run failed: {output.text(failed.get('sentence'))}")
    return notes


def _texts(answer: JSONObject, name: str) -> list[str]:
    found = answer.get(name)
    return [output.printable(output.text(item)) for item in found] if isinstance(found, list) else []
