"""The tab `Engine`: what computes, how fast, for whom, and what it takes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Grid, VerticalScroll
from textual.message import Message

from daemon.errors import ReefError
from reef_cli import output
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.engine import facts
from reef_cli.tui.pane import Pane
from reef_cli.tui.widgets.steady import Steady

if TYPE_CHECKING:
    from daemon.records import JSONObject

_TICK_S = 1.0
_DISK_TICKS = 15
_TALL, _TALL_FROM = 5, 28
"""Lines of the columns, in a pane of so many lines."""


class Resized(Message, namespace="box"):
    """A box has another width: what it shows is fitted again."""


class _Box(Steady):
    def __init__(self, name: str, title: str) -> None:
        super().__init__(id=name, classes="panel")
        self.border_title = title
        self._width = 0

    @property
    def room(self) -> int:
        """Cells of a line."""
        return max(10, self.content_size.width)

    def note(self, text: str) -> None:
        """In the lower border. Set anew, it would paint the whole box."""
        if self.border_subtitle != text:
            self.border_subtitle = text

    def on_resize(self) -> None:
        if self.room != self._width:
            self._width = self.room
            self.post_message(Resized())


class EnginePane(Pane):
    """Boxes of facts, renewed every second while they are seen."""

    title: ClassVar[str] = "Engine"
    kinds: ClassVar[frozenset[str]] = frozenset({"engine", "head", "runs"})
    about: ClassVar[str] = (
        "What computes now: replies being made, tokens a second over the last minutes, how much of each prompt was found in the cache and"
        " why not more, the memory of each process, what is loaded. Speeds are measured while the app is open."
    )
    DEFAULT_CSS = """
    EnginePane Grid {
        height: auto;
        grid-size: 2;
        grid-rows: auto;
        grid-gutter: 0 1;
    }
    EnginePane Grid > .panel {
        height: 100%;
    }
    EnginePane VerticalScroll {
        scrollbar-size-vertical: 1;
    }
    EnginePane .panel {
        height: auto;
    }
    EnginePane #warnings {
        display: none;
        border: round $warning;
        border-title-color: $text-warning;
    }
    EnginePane #warnings.-shown {
        display: block;
    }
    """

    def __init__(self, daemon: Daemon, scenario: str) -> None:
        super().__init__(daemon, scenario)
        self._status: JSONObject = {}
        self._engine: JSONObject = {}
        self._ticks = 0

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield _Box("warnings", "▲ Warnings")
            yield _Box("speed", "Tokens a second")
            with Grid():
                yield _Box("streams", "Answering now")
                yield _Box("model", "Model")
                yield _Box("cache", "Prompts found in the cache")
                yield _Box("memory", "Memory")

    def on_mount(self) -> None:
        self.set_interval(_TICK_S, self._tick)

    async def refresh_from(self, changes: frozenset[str]) -> None:
        if changes & {"head", "runs"} or not self._status:
            self._status = await self.daemon.get("/reef/status")
        self._engine = await self.daemon.get("/reef/engine")
        self._show()

    def _tick(self) -> None:
        if self.display and self._engine:
            self.run_worker(self._look(), exclusive=True, group="look")

    async def _look(self) -> None:
        self._ticks += 1
        with contextlib.suppress(ReefError):  # a lost daemon is told of by the feed
            await self.refresh_from(frozenset({"head"} if self._ticks % _DISK_TICKS == 0 else {"engine"}))

    def _show(self) -> None:
        if not self._engine:
            return
        contents = {"streams": facts.streams, "model": facts.model, "cache": facts.cache, "memory": facts.memory}
        for name, content in contents.items():
            box = self.query_one(f"#{name}", _Box)
            box.show(content(self._engine, self._status, box.room))
        speed = self.query_one("#speed", _Box)
        speed.show(facts.speed(self._engine, speed.room, _TALL if self.size.height >= _TALL_FROM else 1))
        speed.note(facts.speed_note(self._engine, speed.room))
        self.query_one("#cache", _Box).note(facts.cache_note(self._engine))
        self.query_one("#memory", _Box).note(f"of {output.size(self._engine.get('memory_bytes'))} in this machine")
        warnings = [output.printable(warning) for warning in facts.warnings(self._status)]
        box = self.query_one("#warnings", _Box)
        box.set_class(bool(warnings), "-shown")
        box.show("\n".join(warnings))

    def on_box_resized(self, event: Resized) -> None:
        event.stop()
        self._show()
