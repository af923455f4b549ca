"""One release beside the list: what changed, whether it was better, why it serves or not, and what it was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message

from reef_cli import output
from reef_cli.release_page import asked_by
from reef_cli.tui.releases.prose import chance, facts, level, line, outcomes, page, plural, signed, title
from reef_cli.tui.releases.release import Evaluation, Release, State
from reef_cli.tui.widgets.steady import Steady
from reef_cli.tui.wrapping import cut

if TYPE_CHECKING:
    from daemon.records import JSONObject

_LEVEL_CELLS = 24
_SESSIONS = 8
_FILES = 12
_NARROWEST = 24
_NEXT = (
    "Nothing was learned yet. 2 shows what was asked: g and b say there what a reply was worth, and reef bad --correction"
    " how it should have been. 3 shows what learns; e starts it there."
)
_ROLES = {State.SERVING: "good", State.EARLIER: "muted", State.HELD: "waiting", State.PROMOTED: "muted", State.REJECTED: "bad"}


class ReleaseDetails(VerticalScroll, can_focus=True):
    """Scrolls by keys when it has the focus; Esc goes back to the list."""

    DEFAULT_CSS = """
    ReleaseDetails {
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
        Binding("enter,escape,left", "close", "Back to the list", show=False),
    ]

    class Closed(Message):
        """Back to the list."""

    def __init__(self) -> None:
        super().__init__(classes="panel")
        self._release: Release | None = None
        self._known: JSONObject = {}

    def compose(self) -> ComposeResult:
        yield Steady()

    def show(self, release: Release | None, known: JSONObject | None = None) -> None:
        """What the list knows at once; `known`, the answer of `GET …/releases/{id}`, when it has come."""
        if release is None or self._release is None or release.id != self._release.id:
            self._known = {}
            self.scroll_home(animate=False)
        self._release, self._known = release, known or self._known
        self.border_title = release.id if release is not None else ""
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def action_close(self) -> None:
        self.post_message(self.Closed())

    def _draw(self) -> None:
        width = max(_NARROWEST, self.scrollable_content_region.width)
        self.query_one(Steady).show(write(self._release, self._known, width) if self._release is not None else Content())


def write(release: Release, known: JSONObject, width: int) -> Content:
    """The whole page; `known` is empty until the daemon has told more than the list."""
    made = (output.age(release.recorded_at), _how(release), f"on {release.parent}" if release.parent else "")
    lines = [
        line((f"{release.state.value} {release.standing}", _ROLES[release.state])),
        line((" · ".join(part for part in made if part), "muted")),
        line((release.change, "strong")),
    ]
    if release.verdict:
        lines.append(line((release.verdict, "plain")))
    if release.evaluation is not None:
        lines += _evaluation(release.evaluation, min(_LEVEL_CELLS, width - 22), known)
    if known:
        lines += [*_sessions(known, width), *_content(known, width), *_origin(release, known)]
    if release.serves and not release.parent:
        lines += [*title("Next"), line((_NEXT, "plain"))]
    return page(lines)


def _how(release: Release) -> str:
    if not release.parent:
        return "the first release"
    return f"by {release.by}" if release.by == release.recipe else release.by


def _evaluation(found: Evaluation, cells: int, known: JSONObject) -> list[Content]:
    lines: list[Content] = []
    if found.played:
        before, after = found.before or 0.0, found.after or 0.0
        role = "good" if after > before else "bad" if after < before else "plain"
        lines += title("Held-out tasks", f"{found.points(before)} → {found.points(after)} of {found.tasks}")
        lines.append(line(("before  ", "muted"), *level(before, cells, "muted"), (f"  {before * 100:.0f} %", "plain")))
        lines.append(line(("after   ", "muted"), *level(after, cells, role), (f"  {after * 100:.0f} %", role)))
        lines.append(line(("tasks   ", "muted"), *outcomes(found.wins, found.losses, found.ties, cells)))
        luck = f", {chance(found.p)}" if found.p is not None else ""
        lines.append(line((f"        {found.wins} better, {found.losses} worse, {found.ties} the same{luck}", "plain")))
    if found.probe_rise is not None:
        lines += [] if lines else title("Evaluation")
        lines.append(line(("general ", "muted"), (f"loss of general text {signed(found.probe_rise, 1)}", "plain")))
    details = output.part(output.part(known, "evaluation"), "details")
    tokens = details.get("tokens_before"), details.get("tokens_after")
    if lines and isinstance(tokens[0], int) and isinstance(tokens[1], int) and tokens[0]:
        change = f" ({signed(tokens[1] / tokens[0] - 1, 0)})"
        lines.append(line(("tokens  ", "muted"), (f"{tokens[0]:,} → {tokens[1]:,}{change}", "plain")))
    return lines


def _sessions(known: JSONObject, width: int) -> list[Content]:
    sessions, records = output.rows(known, "sessions"), known.get("records")
    count = len(records) if isinstance(records, list) else 0
    if not sessions and not count:
        return []
    note = plural(count, "exchange") + (f" in {plural(len(sessions), 'session')}" if sessions else "")
    lines = title("Learned from", note)
    for session in sessions[:_SESSIONS]:
        name = "forgotten" if session.get("forgotten") is True else output.text(session.get("title"), output.text(session.get("id")))
        lines.append(line((f"{output.text(session.get('receipts'), ''):>4}  ", "muted"), (cut(name, width - 6), "plain")))
    if len(sessions) > _SESSIONS:
        lines.append(line((f"      and {len(sessions) - _SESSIONS} more", "muted")))
    gone = known.get("records_gone")
    if isinstance(gone, int) and gone:
        lines.append(line((f"      {plural(gone, 'exchange')} no longer stored", "muted")))
    return lines


def _content(known: JSONObject, width: int) -> list[Content]:
    files = sorted(output.part(known, "files").items())
    lora = next((artifact for artifact in output.rows(known, "artifacts") if artifact.get("kind") == "lora"), None)
    lines = title("Content")
    if lora is not None:
        rank = output.part(lora, "details").get("rank")
        size = output.size(output.part(known, "sizes").get("lora_bytes") or lora.get("size_bytes"))
        lines.append(line(("LoRA  ", "muted"), (f"rank {output.text(rank)}, {size}" if rank else size, "plain")))
    for path, text in files[:_FILES]:
        count = len(text.splitlines()) if isinstance(text, str) else 0
        lines.append(line((cut(path, width - 14), "plain"), (f"  {plural(count, 'line')}", "muted")))
    if len(files) > _FILES:
        lines.append(line((f"and {plural(len(files) - _FILES, 'file')} more", "muted")))
    if lora is None and not files:
        lines.append(line(("the base model alone", "plain")))
    return lines


def _origin(release: Release, known: JSONObject) -> list[Content]:
    base, parents, later = output.part(known, "base"), output.part(known, "parents"), known.get("later")
    seed = known.get("seed")
    return [
        *title("Origin"),
        *facts(
            [
                ("base", " ".join(cut(output.text(base.get(name), ""), 60) for name in ("model", "quantisation")).strip()),
                ("asked by", asked_by(release.who)),
                ("run", release.run_id),
                ("compared with", cut(output.text(parents.get("compared_with"), ""), 20)),
                ("promotes", cut(output.text(parents.get("promotes"), ""), 20)),
                ("later", ", ".join(cut(output.text(one), 20) for one in later[:8]) if isinstance(later, list) else ""),
                ("seed", str(seed) if isinstance(seed, int) else ""),
                ("commit", cut(output.text(known.get("commit_id"), ""), 12)),
            ]
        ),
    ]
