"""/reef/harness/proposals: what running agents propose for the harness of their scenario. It waits as a held candidate for a person."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import known_scenario
from daemon.api.release_views import mutation_view
from daemon.errors import Conflict, DataError
from daemon.evolution.proposal import quarantine
from daemon.evolution.provenance import facts_of
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import scenario_of
from daemon.gateway.security import caller_of
from daemon.harness.agent_proposals import MOST_CHARACTERS, MOST_WAITING, AgentProposal, Pace, read_proposal
from daemon.harness.guard import inspect
from daemon.harness.mutations import apply
from daemon.harness.validate import check_harness
from daemon.records import JSON, JSONObject
from daemon.services import Services
from daemon.versions.manifest import Operation
from daemon.versions.names import HEAD, named
from daemon.versions.operations import held_already, promote
from daemon.versions.personal import personal_lines
from daemon.versions.release import Draft, Release

_BODY_BYTES = 8 * MOST_CHARACTERS


class _Refused(Exception):
    """The sentence why."""


class HarnessProposalRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._pace = Pace()

    def routes(self) -> list[Route]:
        path = "/reef/harness/proposals"
        return [Route(path, self.propose, methods=["POST"]), Route(path, self.waiting, methods=["GET"])]

    async def propose(self, request: Request) -> Response:
        """201: it waits as a held candidate. 200: it is refused, or waits already; `reason` says which."""
        scenario = known_scenario(scenario_of(request), self._services)
        proposal = read_proposal(await read_json(request, _BODY_BYTES))
        self._pace.admit(scenario, proposal.session)
        try:
            draft, known = await asyncio.to_thread(self._draft, scenario, proposal, caller_of(request).role.value)
        except _Refused as refusal:
            return json_response({"proposal_id": None, "admitted": False, "reason": str(refusal)})
        if known is not None:
            return json_response({"proposal_id": known.id, "admitted": True, "reason": f"The same waits already, as {known.id}."})
        held = await self._services.publisher.hold(draft)
        told = f"It waits as {held.id} until a person promotes it: {draft.verdict.removeprefix('held: ')}"
        return json_response({"proposal_id": held.id, "admitted": True, "reason": told}, 201)

    async def waiting(self, request: Request) -> Response:
        """Newest first, each as it would serve now; `aged`: what serves has changed the same, so it cannot be promoted."""
        scenario = known_scenario(scenario_of(request), self._services)
        return json_response({"proposals": await asyncio.to_thread(self._waiting, scenario)})

    def _draft(self, scenario: str, proposal: AgentProposal, who: str) -> tuple[Draft, Release | None]:
        """The candidate, and the one like it that is held already. Raises `_Refused`."""
        services = self._services
        repository, head = services.repository, named(services.repository, scenario, HEAD)
        self._refuse_secrets(scenario, proposal)
        try:
            tree = apply(head.tree, proposal.mutations)
        except (Conflict, DataError) as error:
            raise _Refused(f"It does not fit what serves ({head.id}): {error.message} {error.hint}".strip()) from error
        if tree.content_id == head.tree.content_id:
            raise _Refused(f"{head.id} says that already; nothing would change.")
        for trace in repository.rejected(scenario):
            if trace.manifest.operation is Operation.PROPOSAL and trace.tree.content_id == tree.content_id:
                raise _Refused(f"A person has dismissed the same, as {trace.id}.")
        found = quarantine(inspect(head.tree, tree, personal_lines(repository, scenario)))
        verdict = f"held: proposed by {proposal.author}, and not evaluated"
        draft = Draft(
            scenario=scenario,
            operation=Operation.PROPOSAL,
            base=head.manifest.base,
            harness=tree,
            lora=head.lora,
            engine=head.manifest.engine,
            verdict=verdict if found is None else f"{verdict}; {found.sentence}",
            who=who,
            mutations=facts_of(head.tree, tree, proposal.mutations, reason=proposal.reason, author=proposal.author),
            compared_with=head.id,
        )
        known = held_already(repository, draft)
        if known is None and len(self._held(scenario)) >= MOST_WAITING:
            raise _Refused(f"{MOST_WAITING} proposals wait for a person already.")
        return draft, known

    def _refuse_secrets(self, scenario: str, proposal: AgentProposal) -> None:
        """A release is kept for good, so what looks like a secret must not get into one."""
        rule = self._services.store.redaction
        texts: JSONObject = {f"{number}": [one.text or "", one.reason] for number, one in enumerate(proposal.mutations)}
        if rule.applies(scenario) and rule.of(scenario).object(texts)[1]:
            raise _Refused("It holds what looks like a secret, which no release may keep.")

    def _held(self, scenario: str) -> list[Release]:
        return [one for one in self._services.repository.held(scenario) if one.manifest.operation is Operation.PROPOSAL]

    def _waiting(self, scenario: str) -> list[JSON]:
        repository, head = self._services.repository, named(self._services.repository, scenario, HEAD)
        personal = personal_lines(repository, scenario)
        found: list[JSON] = []
        for release in self._held(scenario):
            try:
                tree = promote(repository, scenario, release.id, who="").harness
                check_harness(tree)
            except (Conflict, DataError):
                tree = None
            said = repository.reader.mutations(release.commit_id)
            mutations: list[JSON] = [mutation_view(each) for each in said.mutations] if said is not None else []
            found.append(
                {
                    "proposal_id": release.id,
                    "proposed_at": release.manifest.created_at,
                    "change": release.manifest.change,
                    "verdict": release.manifest.verdict,
                    "aged": tree is None,
                    "mutations": mutations,
                    "findings": len(inspect(head.tree, release.tree if tree is None else tree, personal)),
                }
            )
        return found
