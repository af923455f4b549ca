"""How the demo tells what happens: numbered headings, plain lines, tables, and a bar for what takes longer than a second.

On a terminal the bars move; in a log each becomes one line when it is done.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

_LOG_EVERY_S = 20.0


class Bar:
    """One moving bar, given out by `Narrator.bar`. Where nothing moves, in a log, it says a line now and then instead."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._spoke = time.monotonic()

    def update(self, done: float, total: float | None = None, detail: str = "") -> None:
        self._progress.update(self._task, completed=done, total=total, detail=detail)
        if self._progress.disable and total and time.monotonic() - self._spoke > _LOG_EVERY_S:
            self._spoke = time.monotonic()
            self._progress.console.print(Text(f"   … {done:.0f} of {total:.0f} {detail}"))

    def advance(self) -> None:
        self._progress.advance(self._task)


class Narrator:
    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()
        self._step = 0

    def heading(self, text: str) -> None:
        self._step += 1
        elapsed = int(time.monotonic() - self._began)
        self.console.print()
        self.console.print(Text(f"{self._step}. {text}", style="bold"), Text(f"   {elapsed // 60}:{elapsed % 60:02d}", style="dim"))

    def say(self, text: str) -> None:
        self.console.print(Text(f"   {text}"))

    def exchange(self, asked: str, got: str) -> None:
        """One prompt and its reply, shortened to a line each."""
        self.console.print(Text(f"   › {one_line(asked)}", style="dim"))
        self.console.print(Text(f"     {one_line(got)}"))

    def check(self, held: bool, text: str) -> None:
        """One claim of the demo, and whether it held; said in words, not by colour alone."""
        mark = Text("   held   ", style="bold green") if held else Text("   FAILED ", style="bold red")
        self.console.print(mark + Text(text, style="default"))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int = 1) -> None:
        table = Table(show_edge=False, pad_edge=True, header_style="bold")
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index < numbers_from else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)

    @contextmanager
    def bar(self, text: str, total: float | None = None) -> Iterator[Bar]:
        columns = (
            TextColumn("   {task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
        )
        began = time.monotonic()
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as progress:
            yield Bar(progress, progress.add_task(text, total=total, detail=""))
        self.say(f"{text}: {time.monotonic() - began:.0f} s")


def one_line(text: str, width: int = 110) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
