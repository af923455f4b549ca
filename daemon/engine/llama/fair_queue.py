"""Who gets the next free place: scenarios take turns, within one its sessions do, within one the first to come is the first."""

from __future__ import annotations

from collections import deque

from daemon.engine.llama.sequence import Job

QUEUE_LIMIT = 64  # of each priority: what learning asks for must not crowd out a live request
_FOR_OTHERS = 16  # of these, kept for scenarios that have nothing waiting


class FairQueue:
    """Bounded by `has_room`, which the caller asks before `put`."""

    def __init__(self) -> None:
        self._scenarios: dict[str, dict[str, deque[Job]]] = {}  # both in the order of their next turns
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def has_room(self, scenario: str) -> bool:
        """Whether one more may wait. The last places are for scenarios that have nothing waiting."""
        return self._count < QUEUE_LIMIT - (_FOR_OTHERS if scenario in self._scenarios else 0)

    def put(self, job: Job) -> None:
        self._scenarios.setdefault(job.scenario, {}).setdefault(job.session, deque()).append(job)
        self._count += 1

    def take(self) -> Job | None:
        """The next job; its session and its scenario go to the end of their lines."""
        if not self._count:
            return None
        scenario = next(iter(self._scenarios))
        sessions = self._scenarios.pop(scenario)
        session = next(iter(sessions))
        jobs = sessions.pop(session)
        job = jobs.popleft()
        if jobs:
            sessions[session] = jobs
        if sessions:
            self._scenarios[scenario] = sessions
        self._count -= 1
        return job

    def remove(self, call: int) -> Job | None:
        """Take out the job of that call, if it waits here."""
        for scenario, sessions in self._scenarios.items():
            for session, jobs in sessions.items():
                job = next((job for job in jobs if job.id == call), None)
                if job is None:
                    continue
                jobs.remove(job)
                if not jobs:
                    del sessions[session]
                if not sessions:
                    del self._scenarios[scenario]
                self._count -= 1
                return job
        return None
