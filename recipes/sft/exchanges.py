"""Which exchanges `sft` learns from: replies that were accepted, and replies as the user would have had them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from daemon.experience.stream import Turn
from daemon.records import Message, Status

REDACTED = "[redacted:"
"""Stands in a text where a secret was. It is read, but never learned."""
IMPORT = "import"
"""The wire of what was not said here."""
_ALWAYS_SOLVED_FROM = 3


@dataclass(frozen=True, slots=True)
class Exchange:
    """One prompt with the reply to learn. `corrected`: the reply is the user's, else it was sampled and accepted."""

    turn: Turn
    reply: str
    corrected: bool

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt, as the client sent it."""
        return self.turn.inference.messages

    @property
    def task(self) -> str:
        """Equal for equal prompts."""
        return _task(self.turn)

    @property
    def prompt_text(self) -> str:
        """The last user message: what a task file would hold."""
        content = next((message.get("content") for message in reversed(self.messages) if message.get("role") == "user"), "")
        return content if isinstance(content, str) else json.dumps(content)


def usable(turns: Iterable[Turn], min_score: float, max_staleness: int) -> tuple[list[Exchange], Mapping[str, int]]:
    """Exchanges that may be learned from, oldest first, and for the others how many were left out for which reason."""
    found: list[Exchange] = []
    skipped: Counter[str] = Counter()
    for turn in turns:
        exchange = _exchange(turn, min_score, max_staleness)
        if isinstance(exchange, str):
            skipped[exchange] += 1
        else:
            found.append(exchange)
    return found, skipped


def _exchange(turn: Turn, min_score: float, max_staleness: int) -> Exchange | str:
    """The exchange, or the reason why there is none."""
    inference, correction, score = turn.inference, turn.correction, turn.score
    if correction is None and (score is None or score < min_score):
        return "not accepted"
    if REDACTED in (correction or ""):
        return "redacted"
    if correction is not None:
        return Exchange(turn, correction, corrected=True)
    if inference.wire == IMPORT and inference.tokens is None:
        return _written(turn)
    if inference.status is not Status.OK:
        return "aborted"
    if inference.tokens is None or not inference.tokens.completion:
        return "redacted" if inference.redactions else "no token ids"
    if not any(inference.tokens.counts or (True,)):
        return "redacted"
    if turn.lag > max_staleness:
        return "stale"
    content = inference.reply.get("content")
    return Exchange(turn, content if isinstance(content, str) else "", corrected=False)


def _written(turn: Turn) -> Exchange | str:
    """An accepted reply that was said elsewhere: learned like a correction, as text that the engine renders."""
    reply = turn.inference.reply
    content = reply.get("content")
    if reply.get("tool_calls") or not isinstance(content, str) or not content:
        return "no plain text"
    return "redacted" if REDACTED in content else Exchange(turn, content, corrected=False)


def failed(turns: Iterable[Turn], min_score: float) -> frozenset[str]:
    """Tasks at which the model has failed at least once, as a report says."""
    return frozenset(_task(turn) for turn in turns if turn.score is not None and turn.score < min_score)


def _task(turn: Turn) -> str:
    return json.dumps(turn.inference.messages, sort_keys=True)


def choose(
    exchanges: Sequence[Exchange], per_task: int, limit: int, failed_tasks: Collection[str] = ()
) -> tuple[list[Exchange], Mapping[str, int]]:
    """At most `per_task` of one prompt and `limit` in all, the newest, in their order.

    Of one prompt a correction goes first (the latest one), then the shortest accepted reply. A prompt that the model has
    solved every time it was asked teaches nothing and is dropped.
    """
    by_task: dict[str, list[Exchange]] = defaultdict(list)
    for exchange in exchanges:
        by_task[exchange.task].append(exchange)
    kept: list[Exchange] = []
    skipped: Counter[str] = Counter()
    for task, group in by_task.items():
        corrections = [exchange for exchange in group if exchange.corrected]
        accepted = sorted((exchange for exchange in group if not exchange.corrected), key=lambda exchange: len(exchange.reply))
        if not corrections and len(accepted) >= _ALWAYS_SOLVED_FROM and task not in failed_tasks:
            skipped["always solved"] += len(group)
            continue
        # Two corrections of one prompt would contradict each other; beside one, what it replaced is not learned either.
        chosen = corrections[-1:] or accepted[:per_task]
        kept += chosen
        if len(group) > len(chosen):
            skipped["same prompt"] += len(group) - len(chosen)
    kept.sort(key=lambda exchange: exchange.turn.inference.sequence)
    if len(kept) > limit:
        skipped["more than fit"] += len(kept) - limit
    return kept[-limit:], skipped
