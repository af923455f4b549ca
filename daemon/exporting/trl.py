"""TRL's conversational lines: `kto` for replies judged one by one, `dpo` for pairs of a better and a worse one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from daemon.exporting.conversation import Conversation, Exchange, Format
from daemon.exporting.messages import chat, with_tools
from daemon.records import JSONObject, Message


class KTOFormat(Format):
    """A line for every reply that was scored, and for every correction; `good_only` leaves the bad ones out."""

    name = "kto"

    def lines(self, conversation: Conversation, good_only: bool) -> Iterator[JSONObject]:
        for turn in conversation.turns:
            if turn.correction is not None:
                yield _judged(turn, turn.correction, True)
            is_bad = turn.correction is not None or (turn.score is not None and turn.score < 0)
            if is_bad and not good_only:
                yield _judged(turn, turn.inference.reply, False)
            elif not is_bad and turn.score:
                yield _judged(turn, turn.inference.reply, True)


class DPOFormat(Format):
    """Corrections over what they correct; and of the replies to one request the best scored over each that was scored lower."""

    name = "dpo"

    def lines(self, conversation: Conversation, good_only: bool) -> Iterator[JSONObject]:
        same: dict[int, list[Exchange]] = defaultdict(list)
        for turn in conversation.turns:
            if turn.correction is not None:
                yield _pair(turn, turn.correction, turn.inference.reply)
            elif turn.score is not None:
                same[turn.first].append(turn)
        for group in same.values():
            best = max(group, key=_score)
            for turn in group:
                if _score(turn) < _score(best) and turn.inference.reply != best.inference.reply:
                    yield _pair(best, best.inference.reply, turn.inference.reply)


def _score(turn: Exchange) -> float:
    return turn.score or 0.0


def _judged(turn: Exchange, reply: Message, label: bool) -> JSONObject:
    prompt = chat(turn.inference.messages, reasoning=True)
    return with_tools({"prompt": prompt, "completion": chat([reply], reasoning=True), "label": label}, turn.inference.request)


def _pair(turn: Exchange, chosen: Message, rejected: Message) -> JSONObject:
    line: JSONObject = {
        "prompt": chat(turn.inference.messages, reasoning=True),
        "chosen": chat([chosen], reasoning=True),
        "rejected": chat([rejected], reasoning=True),
    }
    return with_tools(line, turn.inference.request)
