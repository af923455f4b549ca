"""POST /reef/scenarios/{s}/harness: a person's changes by hand to a harness, published as theirs.

They are merged onto what serves now, three ways and file by file; where both sides changed the same lines, nothing is published and each
place is named. The guard reads them as it reads everybody's: what it finds is answered and not published, until the person names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import require_owner, scenario_in_path
from daemon.api.release_views import plain
from daemon.api.views import release_view
from daemon.errors import BadRequest, Conflict
from daemon.evolution.consent import side_by_side
from daemon.evolution.provenance import facts_of
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.wires.fields import boolean, text, texts
from daemon.harness.finding import Finding, finding_id, finding_view
from daemon.harness.guard import inspect
from daemon.harness.validate import check_harness
from daemon.harness_tree import HarnessTree
from daemon.records import JSON, JSONObject
from daemon.services import Services
from daemon.versions.manifest import Operation
from daemon.versions.merge import merge_trees
from daemon.versions.names import HEAD, named
from daemon.versions.release import Draft, Release

_MOST_CONFIRMED = 10_000
_SHOWN_CLASHES = 20


@dataclass(frozen=True, slots=True)
class _Merged:
    head: Release
    tree: HarnessTree
    findings: tuple[Finding, ...]


class HarnessEditRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/scenarios/{scenario}/harness", self.edit, methods=["POST"])]

    async def edit(self, request: Request) -> Response:
        """`published` is false where nothing would change, where `findings` must be confirmed first, and with `dry_run`.

        `files` are side by side then: with `dry_run` all that would change, else those with findings.
        """
        who = require_owner(request, "Changing a harness by hand")
        scenario, body = scenario_in_path(request, self._services), await read_json(request)
        wanted = HarnessTree(_files(body))
        base, seen = text(body, "base_release_id", limit=20) or "", text(body, "expected_head", limit=20)
        note = text(body, "note", limit=1000) or ""
        merged = await asyncio.to_thread(self._merge, scenario, wanted, base)
        confirmed, dry_run = frozenset(texts(body, "confirmed", most=_MOST_CONFIRMED)), boolean(body, "dry_run")
        open_findings: list[JSON] = [finding_view(one) for one in merged.findings if finding_id(one) not in confirmed]
        told: JSONObject = {"published": False, "head": merged.head.id, "findings": open_findings}
        if dry_run or open_findings or merged.tree.content_id == merged.head.tree.content_id:
            return json_response({**told, "files": await asyncio.to_thread(_shown, merged, None if dry_run else open_findings)})
        manifest = merged.head.manifest
        draft = Draft(
            scenario=scenario,
            operation=Operation.EDIT,
            base=manifest.base,
            harness=merged.tree,
            lora=merged.head.lora,
            engine=manifest.engine,
            verdict=f"changed by hand: {note}" if note else "changed by hand",
            who=who,
            mutations=facts_of(merged.head.tree, merged.tree, (), reason=note, author=who),
        )
        release = await self._services.publisher.publish(draft, seen or merged.head.id)
        return json_response({**told, "published": True, "release": release_view(release, release.id)})

    def _merge(self, scenario: str, wanted: HarnessTree, base: str) -> _Merged:
        """Raises `DataError` (file and line), `NotFound` for the base, `Conflict` with each place that both changed."""
        check_harness(wanted)
        repository = self._services.repository
        head = named(repository, scenario, HEAD)
        was = named(repository, scenario, base).tree if base else HarnessTree()
        tree, clashes = merge_trees(was, head.tree, wanted)
        if clashes:
            shown = "".join(f"\n  {one.path} {one.where}".rstrip() for one in clashes[:_SHOWN_CLASHES])
            hint = f"Nothing was changed. Look at what serves: `reef diff {base or 'r1'} {head.id}`; make the files fit, then ask again."
            raise Conflict(f"{head.id} and the changes by hand touch the same places:{shown}", hint)
        check_harness(tree)
        return _Merged(head, tree, tuple(inspect(head.tree, tree)))


def _shown(merged: _Merged, findings: Sequence[JSON] | None) -> JSON:
    """The files with findings side by side; None: all that differ."""
    before, after = merged.head.tree, merged.tree
    paths = {one["path"] for one in findings if isinstance(one, dict)} if findings is not None else {*before.files, *after.files}
    return plain(list(side_by_side(before, after, {path for path in map(str, paths) if before.files.get(path) != after.files.get(path)})))


def _files(body: JSONObject) -> dict[str, str]:
    files = body.get("files")
    if not isinstance(files, dict):
        raise BadRequest("'files' must be an object: path → text.", "Send the whole tree.", param="files")
    found: dict[str, str] = {}
    for path, content in files.items():
        if not isinstance(content, str):
            raise BadRequest(f"'files' has no text for {path[:80]!r}.", "Send the whole tree.", param="files")
        found[path] = content
    return found
