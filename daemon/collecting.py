"""Making room in a home: what the releases can give up, copies of LoRAs that nobody asks for, folders of runs that ended long ago.

With the daemon up it goes through the API, with it down through `python -P -m daemon gc`; nothing is published meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.config import Config
from daemon.config_load import load
from daemon.errors import NotFound
from daemon.experience.operations import OperationLog
from daemon.experience.reader import Reader
from daemon.experience.runs import Run, RunStore
from daemon.experience.store import Store
from daemon.failpoints import failpoint
from daemon.instance import Instance
from daemon.paths import Home
from daemon.records import JSON, JSONObject
from daemon.redaction.settings import redaction_of
from daemon.versions import collect
from daemon.versions.collect import Item, Kind
from daemon.versions.repository import Repository

_RUN_DAYS = 30.0


@dataclass(frozen=True, slots=True)
class Collected:
    """What went, or with a dry run would go."""

    items: tuple[Item, ...]
    dry_run: bool

    @property
    def freed_bytes(self) -> int:
        return sum(item.size_bytes for item in self.items)

    def view(self) -> JSONObject:
        items: list[JSON] = [
            {
                "kind": item.kind.value,
                "what": item.what,
                "why": item.why,
                "size_bytes": item.size_bytes,
                "scenario": item.scenario or None,
                "releases": list(item.release_ids),
                "files": len(item.paths),
            }
            for item in self.items
        ]
        return {"dry_run": self.dry_run, "freed_bytes": self.freed_bytes, "items": items}


def make_room(
    home: Home, repository: Repository, config: Config, runs: Sequence[Run], in_use: Collection[str] | None, *, dry_run: bool
) -> Collected:
    """Find what can go and, unless it is a `dry_run`, remove it. Blocks; nothing may be published meanwhile.

    Args:
        in_use: ids of LoRAs that something serves on; None: no daemon runs.

    Raises:
        DataError: the repository is damaged, and what is needed cannot be known; nothing was removed. StorageError: the disk.
    """
    with repository.writing():
        released = collect.find(repository, _keep(config), in_use or ())
        found = collect.sized([*released, *_copies(home, in_use), *_runs(home, repository, config, runs), *_temporaries(home)])
        found = [item for item in found if item.kind is not Kind.COPY or item.size_bytes]  # a link to weights that stay frees nothing
        if not dry_run:
            collect.remove(repository, found)
    return Collected(tuple(found), dry_run)


def note(log: OperationLog, heads: Mapping[str, str], done: Collected, who: str) -> None:
    """A row a scenario that gave up weights, once they are gone. Blocks until they are on disk."""
    for scenario, head in heads.items():
        items = [item for item in done.items if item.scenario == scenario and item.kind is Kind.WEIGHTS]
        if items:
            releases: list[JSON] = [release_id for item in items for release_id in item.release_ids]
            freed = sum(item.size_bytes for item in items)
            log.append(scenario, "gc", head, head, who, {"collected": releases, "freed_bytes": freed}).result()


def run_gc(home: Home, serve_file: Path | None, environment: Mapping[str, str], *, dry_run: bool) -> int:
    """The verb, with the daemon down: prints what went as JSON, which `reef gc` shows. Raises ReefError."""
    if not home.versions.is_dir() or not home.database.is_file():
        raise NotFound(f"There are no releases in {home.root}.", "Set REEF_HOME, or begin with: reef init.")
    with Instance(home):
        config = load(home, serve_file, environment, {}).config
        store = Store.open(home.database, redaction_of(config))
        reader, repository = Reader(home.database), Repository(home.versions)
        try:
            runs = RunStore(store, reader).list(limit=1_000_000)
            done = make_room(home, repository, config, runs, None, dry_run=dry_run)
            failpoint("gc.removed")
            if not dry_run:
                heads = {name: head.id for name in repository.scenarios() if (head := repository.head(name)) is not None}
                note(OperationLog(store, reader), heads, done, "owner")
        finally:
            repository.close()
            reader.close()
            store.close()
    print(json.dumps(done.view(), indent=2))
    return 0


def _keep(config: Config) -> Callable[[str], int]:
    return lambda scenario: config.for_scenario(scenario).storage.keep_releases


def _copies(home: Home, in_use: Collection[str] | None) -> Iterator[Item]:
    """LoRAs that were laid out for the engine; whoever asks for their release lays them out again."""
    young = time.time() - collect.GRACE_S
    for path in sorted(home.loras.glob("*.gguf")):
        # A daemon may have laid one out this moment. The time is that of the link, which shares all others with its object.
        if in_use is None or (path.stem not in in_use and path.stat().st_ctime <= young):
            why = "nothing serves on it now; it is laid out again when asked for"
            yield Item(Kind.COPY, f"LoRA {path.stem[:12]} in {home.loras}", why, (path,))
    for path in collect.left_in(home.loras, ".*.tmp", young):
        yield Item(Kind.TEMPORARY, path.name, "left by a writer that was killed", (path,))


def _runs(home: Home, repository: Repository, config: Config, runs: Sequence[Run]) -> Iterator[Item]:
    """Folders of runs that ended long ago and made no release that keeps its weights, and of runs that nobody knows."""
    limit = time.time() - _RUN_DAYS * 86400
    known = {run.id: run for run in runs}
    needed = set[str]()
    for scenario in repository.refs.all_scenarios():
        chain = repository.chain(scenario)
        kept = collect.kept_whole(repository, scenario, chain, _keep(config)(scenario))
        needed |= {release.manifest.run_id for release in (*kept, *repository.held(scenario)) if release.manifest.run_id}
    for path in collect.left_in(home.runs, "*", limit):
        run = known.get(path.name)
        if run is None:
            yield Item(Kind.RUN, path.name, f"the database does not know it, and it is older than {_RUN_DAYS:.0f} days", (path,))
        elif run.ended_at is not None and run.ended_at <= limit and run.id not in needed:
            yield Item(Kind.RUN, path.name, f"ended over {_RUN_DAYS:.0f} days ago, and no release that is kept whole came of it", (path,))


def _temporaries(home: Home) -> Iterator[Item]:
    for path in collect.left_in(home.root, f".{home.versions.name}.*.tmp", time.time() - collect.GRACE_S):
        yield Item(Kind.TEMPORARY, path.name, "left by a start that was killed", (path,))
