"""What forgetting a session or a record would do, and did, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import output

if TYPE_CHECKING:
    from daemon.records import JSONObject


def planned(plan: JSONObject) -> list[str]:
    """What would go, and which releases hold it or were trained on it. Further lines are indented."""
    records, reports, runs = (_length(plan, name) for name in ("records", "reports", "runs"))
    session = output.printable(output.text(plan.get("session")))
    lines = [f"To forget: {_count(records, 'record')} and {_count(reports, 'report')} of session {session}."]
    if repeated := _length(plan, "repeated_in"):
        lines.append(f"  {_count(repeated, 'later turn')} of the session still say it: forget the whole session to be rid of that too.")
    if runs:
        lines.append(f"  {_count(runs, 'run')} read it: what they kept in files goes.")
    for release in output.rows(plan, "releases"):
        what = ["its LoRA was trained on it"] if release.get("trained") else []
        if release.get("files"):
            what.append(f"{_count(int(str(release['files'])), 'file')} with its text, which will be cleaned")
        serving = ", serves now" if release.get("serving") else f", {release['state']}" if release.get("state") != "published" else ""
        name = output.text(release.get("release_id"))
        lines.append(f"  {name}{serving}: {'; '.join(what) or 'it was made from this among others'}.")
    lines += [f"  {output.printable(copy)} keeps a copy. Remove it yourself." for copy in _list(plan, "copies")]
    return lines


def done(answer: JSONObject) -> list[str]:
    """What was done. Further lines are indented."""
    lines = [f"Forgotten: {_count(_length(answer, 'records'), 'record')}, {_count(_length(answer, 'reports'), 'report')}."]
    if head := answer.get("head"):
        lines.append(f"  {head} serves now, without it.")
    if files := answer.get("files"):
        lines.append(f"  Cleaned in releases: {_count(int(str(files)), 'file')}. `reef fsck` knows them.")
    if dropped := _list(answer, "dropped"):
        lines.append(f"  Given up: {', '.join(dropped)}, held candidates that were made from it.")
    if not answer.get("scrubbed"):
        lines.append("  A reader kept the database's log busy; the last bytes go when it is next emptied, at the latest with: reef down")
    return lines


def _list(answer: JSONObject, name: str) -> list[str]:
    found = answer.get(name)
    return [str(item) for item in found] if isinstance(found, list) else []


def _length(answer: JSONObject, name: str) -> int:
    return len(_list(answer, name))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
