"""Refs of the releases: names, and durable compare-and-swap over dulwich's."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dulwich.objects import ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo

from daemon.errors import BadRequest
from daemon.files import fsync_folder
from daemon.versions.manifest import RELEASE_ID_PATTERN, SCENARIO_PATTERN
from daemon.versions.weights import missing_parents

SCENARIOS: Final = "refs/reef/scenarios/"
OUTSIDE: Final = "refs/outside/"
"""Commits that somebody else put where Reef's were: kept, and never followed."""
NOWHERE: Final = "0" * 40
_ID: Final = re.compile(rb"[0-9a-f]{40}")
_FOREIGN_GIT_S: Final = 2.0


def head_ref(scenario: str) -> str:
    return f"{SCENARIOS}{check_scenario(scenario)}/head"


def held_refs(scenario: str) -> str:
    return f"{SCENARIOS}{check_scenario(scenario)}/held/"


def rejected_refs(scenario: str) -> str:
    return f"{SCENARIOS}{check_scenario(scenario)}/rejected/"


def pin_refs(scenario: str) -> str:
    return f"{SCENARIOS}{check_scenario(scenario)}/pins/"


def mirror_ref(scenario: str) -> str:
    return f"refs/heads/{check_scenario(scenario)}"


def check_scenario(name: str) -> str:
    """A name that is safe in a path and in a ref. Raises BadRequest for any other."""
    if not _is_scenario(name):
        raise BadRequest(f"{name!r} is no scenario name.", "Use a-z, 0-9 and hyphens, at most 63.", param="scenario")
    return name


def _is_scenario(name: str) -> bool:
    return re.fullmatch(SCENARIO_PATTERN, name) is not None and not name.endswith("\n")


def is_release_id(name: str) -> bool:
    return re.fullmatch(RELEASE_ID_PATTERN, name) is not None and not name.endswith("\n")


class Refs:
    """Writers hold the repository's lock, so a lock file that stays is a dead writer's."""

    def __init__(self, repo: Repo, path: Path) -> None:
        self._refs = repo.refs
        self._path = path

    def get(self, name: str) -> str | None:
        """The commit id; None where there is no such ref, `NOWHERE` where there is one that holds no id."""
        try:
            value = self._refs.read_ref(Ref(name.encode()))
        except ValueError:  # of dulwich, for text that is no id
            return NOWHERE
        if value:
            return value.decode() if _ID.fullmatch(value) else NOWHERE
        return NOWHERE if (self._path / name).is_file() else None  # empty, as a power cut leaves a file that was not synced

    def below(self, prefix: str) -> dict[str, str]:
        """Full name → commit id."""
        found: dict[str, str] = {}
        for key in self._refs.subkeys(Ref(prefix.encode())):
            value = self.get(prefix + key.decode())
            if value:
                found[prefix + key.decode()] = value
        return found

    def everything(self) -> dict[str, str]:
        """All refs, also those of a foreign git: full name → object id."""
        return self.below("refs/")

    def scenarios(self) -> list[str]:
        """Those with a head."""
        heads = [name[len(SCENARIOS) :].split("/") for name in self.below(SCENARIOS)]
        return sorted(parts[0] for parts in heads if parts[1:] == ["head"] and _is_scenario(parts[0]))

    def all_scenarios(self) -> list[str]:
        """Those with anything: a head, or candidates alone."""
        return sorted(name for name in {one[len(SCENARIOS) :].split("/")[0] for one in self.below(SCENARIOS)} if _is_scenario(name))

    def candidate_ids(self, scenario: str) -> list[str]:
        """Release ids of held and rejected candidates."""
        names = [name.rsplit("/", 1)[1] for name in (*self.below(held_refs(scenario)), *self.below(rejected_refs(scenario)))]
        return [name for name in names if is_release_id(name)]

    def dismissed_ids(self, scenario: str) -> list[str]:
        """Of candidates that are held still although their trace stands: whoever dismissed them was killed."""
        traces = {name.rsplit("/", 1)[1] for name in self.below(rejected_refs(scenario))}
        return [held for name in self.below(held_refs(scenario)) if (held := name.rsplit("/", 1)[1]) in traces]

    def swap(self, name: str, old: str | None, new: str) -> bool:
        """Set `name` to `new` iff it is `old` (None: absent); durable when this returns True. Raises OSError."""
        ref, value = Ref(name.encode()), ObjectID(new.encode())
        with self._writing(name) as folders:
            done = self._refs.add_if_new(ref, value) if old is None else self._refs.set_if_equals(ref, ObjectID(old.encode()), value)
            for folder in sorted(folders):
                fsync_folder(folder)
        return done

    def point(self, name: str, new: str) -> None:
        """For mirrors, which are repaired at the next start: no fsync of the folder."""
        with self._writing(name):
            self._refs.set_if_equals(Ref(name.encode()), None, ObjectID(new.encode()))

    def replace(self, name: str, new: str) -> None:
        """Set `name` whatever it holds, also where that is no id; durable when it returns. Raises OSError."""
        if self.get(name) == NOWHERE:
            (self._path / name).unlink(missing_ok=True)
        self.swap(name, self.get(name), new)

    def remove(self, name: str, old: str) -> None:
        with self._writing(name):
            self._refs.remove_if_equals(Ref(name.encode()), ObjectID(old.encode()))

    @contextmanager
    def _writing(self, name: str) -> Iterator[set[Path]]:
        """Clear away the lock file of a killed writer, and our own where the disk refuses; the folders to fsync afterwards."""
        target = self._path / name
        folders = missing_parents(target, self._path) | {target.parent}
        lock = target.with_name(target.name + ".lock")
        deadline = time.monotonic() + _FOREIGN_GIT_S
        while lock.exists() and time.monotonic() < deadline:  # a foreign git (a push) holds it for milliseconds
            time.sleep(0.02)
        lock.unlink(missing_ok=True)
        try:
            yield folders
        except OSError:  # which is not dulwich's error for a lock that another git holds
            lock.unlink(missing_ok=True)
            raise
