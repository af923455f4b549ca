"""What a running agent proposes: a few mutations with a reason, read strictly and bounded. Whether they serve is a person's decision."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from daemon.errors import BadRequest, Busy
from daemon.harness.mutations import Mutation, MutationKind
from daemon.records import JSON, JSONObject

MOST_MUTATIONS: Final = 20
MOST_CHARACTERS: Final = 64 * 1024
"""Of all texts of one proposal together."""
LONGEST_REASON: Final = 500
MOST_WAITING: Final = 20
"""Proposals that wait in one scenario."""
_A_SESSION, _A_SCENARIO, _PERIOD_S = 6, 30, 3600.0
_SESSION = re.compile(r"[A-Za-z0-9][\w.:@/+-]{0,127}")
_FIELDS = frozenset({"kind", "entry", "text", "reason"})


@dataclass(frozen=True, slots=True)
class AgentProposal:
    mutations: tuple[Mutation, ...]
    reason: str
    session: str

    @property
    def author(self) -> str:
        return f"an agent in session {self.session}"


def read_proposal(body: JSONObject) -> AgentProposal:
    """Raises BadRequest, with the field, for what is no proposal."""
    reason, session = body.get("reason"), body.get("session")
    if not isinstance(reason, str) or not reason.strip() or len(reason) > LONGEST_REASON:
        raise BadRequest(f"'reason' must say why, in at most {LONGEST_REASON} characters.", param="reason")
    if not isinstance(session, str) or not _SESSION.fullmatch(session):
        raise BadRequest("'session' must be the id of the session that it comes from.", param="session")
    asked = body.get("mutations")
    if not isinstance(asked, list) or not 1 <= len(asked) <= MOST_MUTATIONS:
        hint = 'Such as [{"kind": "create", "entry": "AGENTS.md#testing", "text": "- Run make test."}]'
        raise BadRequest(f"'mutations' must be an array of 1 to {MOST_MUTATIONS} changes.", hint, param="mutations")
    proposal = AgentProposal((), " ".join(reason.split()), session)
    mutations = tuple(_mutation(number, one, proposal) for number, one in enumerate(asked))
    size = sum(len(one.text or "") + len(one.entry) for one in mutations)
    if size > MOST_CHARACTERS:
        raise BadRequest(f"'mutations' has {size:,} characters; a proposal may have {MOST_CHARACTERS:,}.", param="mutations")
    return AgentProposal(mutations, proposal.reason, session)


def _mutation(number: int, asked: JSON, proposal: AgentProposal) -> Mutation:
    name = f"mutations[{number}]"
    if not isinstance(asked, dict) or not set(asked) <= _FIELDS:
        raise BadRequest(f"'{name}' must be an object of kind, entry, text and reason.", param=name)
    kind, entry, text, reason = (asked.get(field) for field in ("kind", "entry", "text", "reason"))
    if kind not in [one.value for one in MutationKind]:
        raise BadRequest(f"'{name}.kind' must be create, update or remove.", param=name)
    if not isinstance(entry, str) or not entry or not isinstance(text, str | None) or (text is None) != (kind == MutationKind.REMOVE):
        raise BadRequest(f"'{name}' needs an `entry`, and a `text` unless it removes.", param=name)
    if not isinstance(reason, str | None) or len(reason or "") > LONGEST_REASON:
        raise BadRequest(f"'{name}.reason' must be a text of at most {LONGEST_REASON} characters.", param=name)
    return Mutation(
        kind=MutationKind(str(kind)),
        entry=entry,
        text=text,
        reason=" ".join((reason or proposal.reason).split()),
        sessions=(proposal.session,),
        author=proposal.author,
    )


class Pace:
    """How often is proposed: a session names itself, so its scenario is bounded too. Lives on the event loop."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._times: dict[str, deque[tuple[float, str]]] = {}  # by scenario: when, and from which session

    def admit(self, scenario: str, session: str) -> None:
        """Count one. Raises Busy where there were too many within the hour."""
        now = self._now()
        times = self._times.setdefault(scenario, deque(maxlen=_A_SCENARIO))
        while times and times[0][0] <= now - _PERIOD_S:
            times.popleft()
        own = [at for at, by in times if by == session]
        for count, most, who, first in (
            (len(own), _A_SESSION, f"the session {session}", own[:1]),
            (len(times), _A_SCENARIO, f"the scenario {scenario}", [at for at, _ in times][:1]),
        ):
            if count >= most:
                wait = max(1, round(first[0] + _PERIOD_S - now))
                raise Busy(f"There were {count} proposals from {who} within an hour.", f"Wait {wait} s.", retry_after_s=wait)
        times.append((now, session))
