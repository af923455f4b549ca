"""`reef import`: conversations that were held elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.errors import BadRequest, DataError
from reef_cli import output
from reef_cli.client import Client
from reef_cli.locations import home as default_home
from reef_cli.options import AsJSON
from reef_cli.progress import ProgressLine, bar
from reef_cli.sending import Outcome, Sender

if TYPE_CHECKING:
    from daemon.importing.conversation import ImportedSession
    from daemon.importing.envelope import Envelope
    from daemon.importing.files import Skipped
    from daemon.importing.transcript import TranscriptReader

_SHOWN = 10


def import_(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE|FOLDER|-|AGENT [PATH]", help="JSON or JSONL; - reads what is piped in; pi, claude, codex or opencode."
        ),
    ] = None,
    git: Annotated[Path | None, typer.Option("--git", metavar="PATH", help="Instead: commits and their messages, of a repository.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="Of --git: the newest so many.")] = 1000,
    good: Annotated[bool, typer.Option("--good", help="Score every reply that has no feedback as good.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read everything and store nothing.")] = False,
    scenario: Annotated[
        str, typer.Option("--scenario", "-s", metavar="NAME", help="Where to; default, or of an agent's sessions the agent's own.")
    ] = "",
    as_json: AsJSON = False,
) -> None:
    """Reef's own records, OpenAI chat lines and request/response pairs, ShareGPT, preference lines of TRL or OpenAI, and ATIF
    trajectories are recognised by their form. Nothing that a file names is run or fetched. What is there already is left, so
    the same command goes on after an interruption. A commit's message counts as good: its author wrote it so.

    The name of an agent reads the sessions that it has kept for itself; a turn that was served here is not stored twice.

    \b
    Examples:
      reef import conversations.jsonl
      reef import runs/ -s agents
      reef import pi
      reef import --git ~/src/project --limit 200
      zcat old.jsonl.gz | reef import - --good
    """
    if (git is None) == (not paths):
        raise BadRequest("What is to be imported?", "Name files or folders, or a repository: reef import --git PATH")
    paths, reader = _of_agent(paths or [])
    scenario = scenario or (reader.name if reader else "default")
    client = None if dry_run else Client()
    outcome, line = Outcome(), ProgressLine()
    progress = _Progress(line, outcome, _size(paths))
    sender = Sender(client, scenario, outcome, progress.tell)
    try:
        for where, item in _items(paths, reader, git, limit, progress, outcome):
            _take(sender, outcome, where, item, good)
        sender.flush()
    except KeyboardInterrupt:
        line.clear()
        print(f"Stopped: {_counts(outcome)}. The same command goes on.", file=sys.stderr)
        raise
    finally:
        line.clear()
    if as_json:
        output.print_json(
            {
                "sessions": outcome.sessions,
                "new": outcome.new,
                "present": outcome.present,
                "skipped": outcome.skipped,
                "left_out": [{"where": where, "reason": reason} for where, reason in outcome.left_out],
            }
        )
    else:
        _print(outcome, scenario, dry_run)
    if outcome.skipped and not outcome.new and not outcome.present:
        raise typer.Exit(1)


def _items(
    paths: list[Path], reader: TranscriptReader | None, git: Path | None, limit: int, progress: _Progress, outcome: Outcome
) -> Iterator[tuple[str, ImportedSession | Envelope]]:
    if git is not None:
        from daemon.importing.git_history import sessions_of  # dulwich takes a while to import

        for session in sessions_of(git.expanduser(), limit):
            yield session.id, session
        return
    for found in _kept(reader, paths, progress) if reader else _read(paths, progress):
        if isinstance(found, tuple):
            yield found
        else:
            _leave_out(outcome, found)


def _of_agent(paths: list[Path]) -> tuple[list[Path], TranscriptReader | None]:
    """What is to be read, and by which agent's reader; None: by its form. A file that is named like an agent is written ./pi."""
    if not paths or str(paths[0]) != paths[0].name or not paths[0].name.isidentifier():
        return paths, None
    from reef_cli.transcripts import find_reader, usual_places

    reader = find_reader(paths[0].name)
    if reader is None:
        return paths, None
    return paths[1:] or usual_places(reader, default_home()), reader


def _read(paths: list[Path], progress: _Progress) -> Iterator[tuple[str, ImportedSession | Envelope] | Skipped]:
    from daemon.importing.source import read

    piped = sys.stdin.buffer if Path("-") in paths else None
    return read([path.expanduser() for path in paths if path != Path("-")], piped, progress.add)


def _kept(reader: TranscriptReader, paths: list[Path], progress: _Progress) -> Iterator[tuple[str, ImportedSession] | Skipped]:
    """The sessions that an agent has kept in files of its own."""
    from daemon.importing.files import Skipped

    for path in paths:
        for file in reader.files(path.expanduser()):
            if isinstance(file, Skipped):
                yield file
            else:
                yield from reader.read(file, progress.add)


def _leave_out(outcome: Outcome, skipped: Skipped) -> None:
    outcome.leave_out(skipped.where, skipped.reason)


def _take(sender: Sender, outcome: Outcome, where: str, item: ImportedSession | Envelope, good: bool) -> None:
    from daemon.importing.conversation import ImportedSession, named, scored

    if not isinstance(item, ImportedSession):
        sender.record(where, item)
        return
    try:
        session = named(scored(item, 1.0) if good else item)
    except DataError as error:
        outcome.leave_out(where, error.message)
        return
    sender.session(where, session)


class _Progress:
    def __init__(self, line: ProgressLine, outcome: Outcome, total: int) -> None:
        self._line = line
        self._outcome = outcome
        self._total = total
        self._read = 0

    def add(self, count: int) -> None:
        self._read += count

    def tell(self) -> None:
        """After each page; without a known size only the counts."""
        done = f"{bar(min(self._read, self._total), self._total)} " if self._total else ""
        self._line.update(f"  {done}{_counts(self._outcome)}")


def _size(paths: list[Path]) -> int:
    """Of the files that are named, in bytes; 0 where a folder or a pipe is among them."""
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            if path != Path("-") and path.expanduser().is_file():
                total += path.expanduser().stat().st_size
                continue
        return 0
    return total


def _counts(outcome: Outcome) -> str:
    parts = [f"{outcome.new:,} new", f"{outcome.present:,} there already"]
    return ", ".join([*parts, f"{outcome.skipped:,} left out"] if outcome.skipped else parts)


def _print(outcome: Outcome, scenario: str, dry_run: bool) -> None:
    for where, reason in outcome.left_out[:_SHOWN]:
        print(output.printable(f"  left out: {where}: {reason}"), file=sys.stderr)
    if outcome.skipped > _SHOWN:
        print(f"  and {outcome.skipped - _SHOWN:,} more; --json lists them.", file=sys.stderr)
    if dry_run:
        print(f"{outcome.new:,} records could be imported into '{scenario}'{f', {outcome.skipped:,} left out' if outcome.skipped else ''}.")
        return
    print(f"Imported into '{scenario}': {_counts(outcome)}.")
    if outcome.new:
        print(f"  See them: reef sessions -s {scenario}")
