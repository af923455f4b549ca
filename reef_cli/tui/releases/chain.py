"""What the app has loaded of a scenario's chain: pages, newest first, that stay in step with the daemon."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from reef_cli import output
from reef_cli.client import scenario_path
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.releases.release import Release, State, read

PAGE = 100


class Chain:
    """The releases of one scenario, by falling number, without gaps from the newest to the last one loaded."""

    def __init__(self, daemon: Daemon, scenario: str) -> None:
        self._daemon = daemon
        self._scenario = scenario
        self.releases: list[Release] = []
        self.complete = False
        """The first release is loaded too."""
        self._asking = asyncio.Lock()  # an older answer must not come over a newer one

    @property
    def head(self) -> Release | None:
        return next((release for release in self.releases if release.serves), None)

    @property
    def next_id(self) -> str:
        """What the next release will be called."""
        return f"r{self.releases[0].number + 1}" if self.releases else "r1"

    def find(self, release_id: str) -> Release | None:
        return next((release for release in self.releases if release.id == release_id), None)

    async def refresh(self) -> None:
        """Take the newest page over what is known.

        Raises:
            ReefError: the daemon refused, or is not there; what was known stays.
        """
        async with self._asking:
            await self._refresh()

    async def load_more(self) -> bool:
        """The next page of older ones; False where there is none. Raises what `refresh` raises."""
        async with self._asking:
            if self.complete or not self.releases:
                return False
            page, more = await self._page(self.releases[-1].id)
            self.complete = not more
            self.releases += [release for release in page if release.number < self.releases[-1].number]
            return bool(page)

    def update(self, release: Release) -> bool:
        """Take over what details told of one release; True if that differs from what was known."""
        for index, known in enumerate(self.releases):
            if known.id == release.id and known != release:
                self.releases[index] = release
                return True
        return False

    async def _refresh(self) -> None:
        page, more = await self._page(None)
        known = {release.id for release in self.releases}
        oldest = page[-1].number if page else 0
        joined = bool(page) and page[-1].id in known
        rest = [release for release in self.releases if release.number < oldest] if joined else []
        if any(release.serves for release in page):
            rest = [replace(release, state=State.EARLIER) if release.serves else release for release in rest]
        self.complete = self.complete if rest else not more
        self.releases = [*page, *rest]

    async def _page(self, before: str | None) -> tuple[list[Release], bool]:
        answer = await self._daemon.get(scenario_path(self._scenario, "releases"), {"limit": PAGE, "before": before})
        page = sorted((read(item) for item in output.rows(answer, "releases")), key=lambda release: -release.number)
        return page, answer.get("next") is not None
