"""The list of sessions: the newest pages that were read, kept in order while new turns move sessions up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from reef_cli import output
from reef_cli.client import scenario_path
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.widgets.rows import Column, Row
from reef_cli.tui.wrapping import cut

if TYPE_CHECKING:
    from daemon.records import JSONObject

PAGE = 50
COLUMNS = (
    Column("session"),
    Column("last", 8, right=True),
    Column("turns", 5, right=True, from_width=60),
    Column("judged", 6, right=True, from_width=60),
    Column("release", 9, from_width=60),
)
LIVE, ANSWERING = "○", "●"


class SessionList:
    """What the daemon's pages hold, of all sessions of a scenario or of those that `words` find."""

    def __init__(self, daemon: Daemon, scenario: str, words: str = "") -> None:
        self.words = words
        self.sessions: list[JSONObject] = []
        self.is_read = False
        self._daemon = daemon
        self._path = scenario_path(scenario, "sessions")
        self._next: int | None = None

    async def refresh(self) -> None:
        """Read the newest page again; what was read below it stays."""
        page = await self._daemon.get(self._path, {"limit": PAGE, "q": self.words})
        found, following = output.rows(page, "sessions"), page.get("next")
        names = {id_of(session) for session in found}
        if not self.is_read or not isinstance(following, int) or self.words:  # a search's pages go by what was found
            self.sessions = found
            self._next = following if isinstance(following, int) else None
        else:
            self.sessions = found + [one for one in self.sessions if id_of(one) not in names and _last(one) < following]
        self.is_read = True

    async def more(self) -> bool:
        """Read the next page. False: there is none."""
        if self._next is None:
            return False
        page = await self._daemon.get(self._path, {"limit": PAGE, "q": self.words, "before": self._next})
        following = page.get("next")
        self._next = following if isinstance(following, int) else None
        known = {id_of(session) for session in self.sessions}
        self.sessions += [session for session in output.rows(page, "sessions") if id_of(session) not in known]
        return True

    def find(self, session: str) -> JSONObject | None:
        return next((one for one in self.sessions if id_of(one) == session), None)


def row_of(session: JSONObject) -> Row:
    """One line of the list."""
    found = output.text(session.get("snippet"), "")
    title = cut(" ".join((found or title_of(session))[:400].split()), 200)
    mark = ANSWERING if session.get("answering") else LIVE if session.get("live") else ""
    reports = session.get("reports")
    releases = session.get("releases")
    names = [output.text(name) for name in releases] if isinstance(releases, list) else []
    release = names[-1] if len(names) < 2 else f"{names[0]}…{names[-1]}"
    cells = (
        Content(title),
        Content.styled(output.age(session.get("updated_at")).removesuffix(" ago"), "$text-muted"),
        Content(output.text(session.get("turns"))),
        Content(output.text(reports) if reports else "·"),
        Content(cut(release, 9)),
    )
    return Row(id_of(session), cells, mark)


def title_of(session: JSONObject) -> str:
    """What the user said first, else its id."""
    return output.text(session.get("title"), "") or id_of(session)


def heading(session: JSONObject, count: int) -> tuple[str, str]:
    """What stands above a trajectory: its title, and facts of it. `count`: its records, retries and asides among them."""
    listed = session.get("turns")
    turns = listed if isinstance(listed, int) else count
    facts = [f"{turns} turn{'' if turns == 1 else 's'}"]
    for name in ("aside", "report"):
        number = session.get(f"{name}s")
        if isinstance(number, int) and number:
            facts.append(f"{number} {name}{'' if number == 1 else 's'}")
    releases = session.get("releases")
    if isinstance(releases, list) and releases:
        facts.append(", ".join(output.text(name) for name in releases[-4:]))
    facts.append(output.age(session.get("updated_at")))
    if session.get("live"):
        doing = f"{ANSWERING} answering" if session.get("answering") else f"{LIVE} under way"
        facts.append(f"{doing} on {output.text(session.get('keeps'))}")
    return output.printable(" ".join(title_of(session)[:400].split())), output.printable(" · ".join(facts))


def has_changed(before: JSONObject | None, now: JSONObject | None) -> bool:
    """Whether something was added to a session between two looks at the list."""
    if before is None or now is None:
        return now is not before
    return any(before.get(name) != now.get(name) for name in ("last_sequence", "reports", "live", "answering", "keeps"))


def id_of(session: JSONObject) -> str:
    return output.text(session.get("id"))


def _last(session: JSONObject) -> int:
    last = session.get("last_sequence")
    return last if isinstance(last, int) else 0
