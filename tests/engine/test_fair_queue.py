"""Nobody is forgotten or taken twice, whatever comes and goes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.base import Priority
from daemon.engine.llama.fair_queue import FairQueue
from daemon.engine.llama.sequence import Job

STEPS = st.lists(st.tuples(st.sampled_from(["put", "take", "remove"]), st.sampled_from("abc"), st.sampled_from("xy")), max_size=40)


@given(STEPS)
@settings(max_examples=100, deadline=None)
def test_each_is_taken_once_and_in_the_order_of_its_session(steps: list[tuple[str, str, str]]) -> None:
    queue, waiting = FairQueue(), {}
    for number, (what, scenario, session) in enumerate(steps):
        if what == "put":
            waiting[number] = Job(number, [1], None, Priority.LIVE, scenario, session)
            queue.put(waiting[number])
        elif what == "take":
            job = queue.take()
            assert (job is None) == (not waiting)
            if job is not None:
                assert job.id == min(
                    other.id for other in waiting.values() if (other.scenario, other.session) == (job.scenario, job.session)
                )
                del waiting[job.id]
        else:
            first = next(iter(waiting), -1)
            assert queue.remove(first) is waiting.pop(first, None)
        assert len(queue) == len(waiting)
