"""Exchanges as token ids. The engine alone tokenises: stored ids where there are any, else its own rendering of the template."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from daemon.evolution.model_client import ModelClient
from daemon.records import JSONObject, Message
from daemon.serving_hints import ServingHints
from daemon.tool_forms import chat_tools
from daemon.training.job import Sample
from recipes.sft.exchanges import REDACTED, Exchange

CONVERSATION = "conversation"
CONVERSATIONS = 8
"""Orders in which the exchanges are shown in a row."""
IN_A_ROW = 8
"""Exchanges in one conversation: as many as `demos` shows by default."""
CONVERSATION_TOKENS = 1024


class Renderer:
    """Turns exchanges into samples under the template of the served model, behind the system prefix of the release."""

    def __init__(self, model: ModelClient, model_id: str, hints: ServingHints, exchanges: Sequence[Exchange]) -> None:
        """`model_id`: what serves now. Token ids that another model left mean nothing to it."""
        self._model = model
        self._model_id = model_id
        self._prefix = hints.model_copy(update={"demonstrations": ()})
        self._end = _end_of_turn([exchange for exchange in exchanges if exchange.turn.inference.model == model_id])
        self._tail = self._written_end() if self._end is None else 0

    def single(self, exchange: Exchange) -> Sample | None:
        """One exchange by itself. None: another model said it, or the template does not keep its beginning when a reply is added."""
        inference = exchange.turn.inference
        if not exchange.corrected and inference.tokens is not None:
            known = inference.model == self._model_id
            tokens = inference.tokens
            return Sample(prompt=tokens.prompt, completion=tokens.completion, mask=tokens.counts) if known else None
        messages = self._prefix.apply(exchange.messages)
        return self._sample(messages, [(len(messages), exchange.reply)], "positive", _tools(exchange))

    def conversations(self, exchanges: Sequence[Exchange], rng: random.Random) -> list[Sample]:
        """The same exchanges in a row, in several orders, every reply a label.

        It is how they are served once `demos` has put them before a prompt, and it costs less than as many lone samples,
        since they share one system text. Lone exchanges only (no history, no tools) that agree in their system text.
        """
        plain = [exchange for exchange in exchanges if _is_plain(exchange)]
        if not plain:
            return []
        most_common = Counter(_system(exchange) for exchange in plain).most_common(1)[0][0]
        plain = [exchange for exchange in plain if _system(exchange) == most_common]
        if len(plain) < 2:
            return []
        made: list[Sample] = []
        for _ in range(CONVERSATIONS):
            order = rng.sample(plain, min(IN_A_ROW, len(plain)))
            sample = self._conversation(order)
            while sample is not None and len(sample.tokens) > CONVERSATION_TOKENS and len(order) > 2:
                order = order[: max(2, len(order) // 2)]
                sample = self._conversation(order)
            if sample is not None and len(sample.tokens) <= CONVERSATION_TOKENS:
                made.append(sample)
        return made

    def _conversation(self, order: Sequence[Exchange]) -> Sample | None:
        messages = list(self._prefix.apply(order[0].messages[:-1]))
        replies: list[tuple[int, str]] = []
        for exchange in order:
            messages.append(exchange.messages[-1])
            replies.append((len(messages), exchange.reply))
            messages.append({"role": "assistant", "content": exchange.reply})
        return self._sample(tuple(messages[:-1]), replies, CONVERSATION, ())

    def _sample(
        self, messages: tuple[Message, ...], replies: Sequence[tuple[int, str]], kind: str, tools: Sequence[JSONObject]
    ) -> Sample | None:
        """`messages` and a last reply; each of `replies` is (how many messages go before it, its text), ascending."""
        whole = self._through(messages, replies[-1][1], tools)
        spans: list[tuple[int, int]] = []
        for count, text in replies:
            before = self._model.render(messages[:count], tools, add_generation_prompt=True)
            through = self._through(messages[:count], text, tools)
            if through[: len(before)] != before or whole[: len(through) - 1] != through[:-1] or len(through) <= len(before):
                return None
            spans.append((len(before), self._stop(through, len(before))))
        start, stop = spans[0][0], spans[-1][1]
        mask = tuple(any(first <= position < last for first, last in spans) for position in range(start, stop))
        return Sample(prompt=tuple(whole[:start]), completion=tuple(whole[start:stop]), mask=None if all(mask) else mask, kind=kind)

    def _through(self, messages: tuple[Message, ...], reply: str, tools: Sequence[JSONObject]) -> list[int]:
        answer: Message = {"role": "assistant", "content": reply}
        return self._model.render((*messages, answer), tools, add_generation_prompt=False)

    def _stop(self, tokens: Sequence[int], start: int) -> int:
        """Just behind the end-of-turn token: what a template writes after it (a line break) the model never samples."""
        for position in range(start, len(tokens)):
            if tokens[position] == self._end:
                return position + 1
        return len(tokens) - max(0, self._tail - 1)

    def _written_end(self) -> int:
        """How many tokens the template writes behind any reply; the first of them ends the turn. For where no reply was recorded."""
        asked: Message = {"role": "user", "content": "?"}
        one, other = (self._through((asked,), text, ()) for text in ("yes", "maybe not"))
        common = 0
        while common < min(len(one), len(other)) and one[-1 - common] == other[-1 - common]:
            common += 1
        return common


def _end_of_turn(exchanges: Sequence[Exchange]) -> int | None:
    """The token that ended most replies which the model ended by itself; None: none was recorded."""
    ends = Counter(
        exchange.turn.inference.tokens.completion[-1]
        for exchange in exchanges
        if exchange.turn.inference.tokens is not None
        and exchange.turn.inference.tokens.completion
        and exchange.turn.inference.finish_reason == "stop"
        and not exchange.turn.inference.sampling.stop
    )
    return ends.most_common(1)[0][0] if ends else None


def _tools(exchange: Exchange) -> tuple[JSONObject, ...]:
    return chat_tools(exchange.turn.inference.request)


def _system(exchange: Exchange) -> tuple[str, ...]:
    return tuple(str(message.get("content")) for message in exchange.messages[:-1])


def _is_plain(exchange: Exchange) -> bool:
    *leading, last = exchange.messages
    return (
        bool(exchange.reply)
        and REDACTED not in exchange.reply
        and last.get("role") == "user"
        and isinstance(last.get("content"), str)
        and all(message.get("role") == "system" for message in leading)
        and not exchange.turn.inference.reply.get("tool_calls")
        and not _tools(exchange)
    )
