"""What can be done with a release: each move names its effect before it is asked for, and sends the head that a person saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.errors import Conflict
from reef_cli import output
from reef_cli.client import scenario_path
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.releases.chain import Chain
from reef_cli.tui.releases.prose import plural
from reef_cli.tui.releases.release import Release, State

if TYPE_CHECKING:
    from daemon.records import JSONObject


@dataclass(frozen=True, slots=True)
class Move:
    """A question to a person, and what to ask of the daemon if the answer is yes."""

    title: str
    effects: list[str]
    yes: str
    head: str
    """The head that the effects were told for; empty: the move does not touch it."""
    operation: str
    """The last parts of the route."""
    body: JSONObject = field(default_factory=dict)
    done: str = ""
    """What to say once it is done, where no new head says it."""
    is_final: bool = False
    """It cannot be taken back."""


class Moves:
    """Plans for one scenario. Each raises Conflict for what makes no sense, and ReefError where the daemon refuses."""

    def __init__(self, daemon: Daemon, scenario: str, chain: Chain) -> None:
        self._daemon = daemon
        self._scenario = scenario
        self._chain = chain

    async def ask(self, move: Move) -> JSONObject:
        """Do it. Raises Conflict where another head stands by now."""
        body = {**move.body, "expected_head": move.head} if move.head else move.body
        if move.operation.startswith("pins/"):
            return await self._daemon.delete(scenario_path(self._scenario, *move.operation.split("/")))
        return await self._daemon.post(scenario_path(self._scenario, *move.operation.split("/")), body)

    async def rollback(self, target: Release) -> Move:
        head = self._head()
        if target.serves:
            raise Conflict(f"{target.id} serves already; nothing would change.", "Choose an earlier release.")
        if target.state is State.HELD:
            raise Conflict(f"{target.id} is held and has never served.", "p promotes it.")
        if not target.published:
            became = f"was promoted as {target.promoted_as}" if target.promoted_as else f"was {target.state.name.lower()}"
            raise Conflict(f"{target.id} {became} and never served as such.", "Choose a release of the chain (•).")
        effects = [f"{self._chain.next_id} will serve {target.id}'s content: {await self._difference(head.id, target.id)}."]
        return Move(
            f"Roll back to {target.id}", [*effects, *await self._after(head)], "Roll back", head.id, "rollback", {"release_id": target.id}
        )

    async def undo(self) -> Move:
        head = self._head()
        if not head.parent:
            raise Conflict(f"{head.id} is the first release; there is nothing to undo.", "Roll back to one further down instead.")
        change = await self._difference(head.id, head.parent)
        effects = [f"{self._chain.next_id} will serve what served before {head.id}, the content of {head.parent}: {change}."]
        return Move(f"Undo {head.id} ({head.operation})", [*effects, *await self._after(head)], "Undo", head.id, "undo")

    async def promote(self, target: Release) -> Move:
        head = self._head()
        if target.published:
            hint = "Choose a held one (○)." if target.serves else "r rolls back to it."
            raise Conflict(f"{target.id} {'serves already' if target.serves else 'has served before'}.", hint)
        if target.state is State.PROMOTED:
            raise Conflict(f"{target.id} was promoted{f' as {target.promoted_as}' if target.promoted_as else ''} already.", "")
        if target.state is State.REJECTED:
            raise Conflict(f"{target.id} was rejected; its weights are not kept.", "Learn again: reef evolve")
        body: JSONObject = {"release_id": target.id}
        proposed = target.operation == "proposal"
        if target.aged and not proposed:
            effects = [
                f"{target.id} was compared with {target.parent}; {head.id} serves now.",
                f"Its change is put on {head.id} and evaluated there: it serves only if the gate lets it.",
            ]
            return Move(f"Promote {target.id}", effects, "Evaluate", head.id, "promote", body)
        content = f"{head.id}'s content with what {target.id} changes: {target.change}"
        if not target.aged:
            content = f"{target.id}'s content: {await self._difference(head.id, target.id)}"
        effects = [f"{self._chain.next_id} will serve {content}."]
        said = f"It was {target.verdict.removeprefix('held: ')}." if proposed else f"The gate had said: {target.verdict}."
        effects += [said] if target.verdict else []
        return Move(f"Promote {target.id}", [*effects, *await self._after(head)], "Promote", head.id, "promote", body)

    async def dismiss(self, target: Release) -> Move:
        if target.state is not State.HELD:
            raise Conflict(f"{target.id} is not held.", "Only a held candidate (○) can be dismissed.")
        effects = [
            f"{target.id} cannot be promoted any more, and its weights go.",
            "Its rules and its evaluation stay to be looked at.",
            "This cannot be undone.",
        ]
        operation = f"releases/{target.id}/dismiss"
        return Move(f"Dismiss {target.id}", effects, "Dismiss", "", operation, done=f"{target.id} is dismissed.", is_final=True)

    async def pin(self, target: Release) -> Move:
        if target.pinned:
            effects = [f"{target.id}'s weights may be collected when it is old, and no client can ask for it by name."]
            return Move(f"Take the pin off {target.id}", effects, "Take it off", "", f"pins/{target.id}")
        effects = [f"{target.id} is kept whole, however old it gets, and clients can ask for it as MODEL@{target.id}."]
        return Move(f"Pin {target.id}", effects, "Pin", "", "pins", {"release_id": target.id})

    def _head(self) -> Release:
        head = self._chain.head
        if head is None:
            raise Conflict(f"The scenario {self._scenario} has no release yet.", "Send it a request first.")
        return head

    async def _difference(self, before: str, after: str) -> str:
        answer = await self._daemon.get(scenario_path(self._scenario, "releases", before, "diff", after))
        if answer.get("same_content") is True:
            raise Conflict(f"{before} serves the very content of {after}; nothing would change.", "c shows where releases differ.")
        return output.printable(output.text(answer.get("line"), "what it holds"))

    async def _after(self, head: Release) -> list[str]:
        """What becomes of the sessions, and how it is taken back."""
        status = await self._daemon.get("/reef/status")
        own = next((item for item in output.rows(status, "scenarios") if item.get("name") == self._scenario), {})
        under_way = own.get("sessions_under_way")
        stays = f"Sessions under way stay on {head.id} until they are idle."
        if isinstance(under_way, int):
            verb, they = ("stays", "it is") if under_way == 1 else ("stay", "they are")
            stays = f"{plural(under_way, 'session')} {verb} on {head.id} until {they} idle." if under_way else "No session is under way."
        return [stays, "Nothing restarts; u takes it back."]
