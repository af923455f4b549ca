"""Jobs as the scheduler gets them."""

from __future__ import annotations

from daemon.engine.base import Priority
from daemon.engine.llama.formats.plain import PlainParser
from daemon.engine.llama.reply import ReplyText
from daemon.engine.llama.sampling import Sampler
from daemon.engine.llama.sequence import Sequence
from daemon.records import Sampling


def greedy(
    number: int,
    prompt: list[int],
    lora: str | None,
    priority: Priority,
    max_tokens: int,
    *,
    scenario: str = "",
    session: str = "",
    template: str = "",
) -> Sequence:
    """A greedy sequence whose reply is plain text."""
    return Sequence(
        number,
        prompt,
        lora,
        priority,
        sampler=Sampler(Sampling(temperature=0), prompt),
        reply=ReplyText((), PlainParser()),
        max_tokens=max_tokens,
        scenario=scenario,
        session=session,
        template=template,
    )
