"""The output items of the responses wire: each begins, grows and ends in events of its own.

An item's id is its kind, the record's own part of its id, and its place: `msg_0ne6…_1`. Events are without their sequence numbers here.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence

from daemon.gateway.steps import Piece
from daemon.gateway.wires.responses.parts import sealed
from daemon.gateway.wires.responses.request import Wanted
from daemon.records import JSON, JSONObject

COMPLETED, INCOMPLETE, IN_PROGRESS = "completed", "incomplete", "in_progress"
_MOST_OPEN = 8
"""Calls whose arguments may come by turns; each is looked at whenever another begins."""


class Item(ABC):
    """One output item."""

    kind = ""

    def __init__(self, stem: str, index: int) -> None:
        """
        Args:
            stem: the record's own part of its id.
            index: the item's place in the output.
        """
        self.id = f"{self.kind}_{stem}_{index}"
        self.index = index
        self.status = IN_PROGRESS

    def begin(self) -> list[JSONObject]:
        return [{"type": "response.output_item.added", "output_index": self.index, "item": self.shown()}]

    def end(self, status: str) -> list[JSONObject]:
        """`status`: completed or incomplete."""
        self.status = status
        return [*self._closing(), {"type": "response.output_item.done", "output_index": self.index, "item": self.shown()}]

    @property
    def is_whole(self) -> bool:
        """Whether nothing more is to be expected when another item begins."""
        return True

    @abstractmethod
    def shown(self) -> JSONObject:
        """The item as it is by now."""

    @abstractmethod
    def _closing(self) -> list[JSONObject]:
        """What is said before the item is done."""

    def _event(self, name: str, **fields: JSON) -> JSONObject:
        return {"type": f"response.{name}", "item_id": self.id, "output_index": self.index, **fields}


class MessageItem(Item):
    """Text that the model says."""

    kind = "msg"

    def __init__(self, stem: str, index: int) -> None:
        super().__init__(stem, index)
        self._texts: list[str] = []
        self._logprobs: list[JSON] = []

    def begin(self) -> list[JSONObject]:
        return [*super().begin(), self._event("content_part.added", content_index=0, part=self._part())]

    def add(self, text: str, logprobs: Sequence[JSONObject]) -> list[JSONObject]:
        self._texts.append(text)
        self._logprobs += logprobs
        return [self._event("output_text.delta", content_index=0, delta=text, logprobs=list(logprobs))]

    def shown(self) -> JSONObject:
        content: list[JSON] = [] if self.status == IN_PROGRESS else [self._part()]
        return {"id": self.id, "type": "message", "status": self.status, "role": "assistant", "content": content}

    def _closing(self) -> list[JSONObject]:
        part = self._part()
        return [
            self._event("output_text.done", content_index=0, text=part["text"], logprobs=part["logprobs"]),
            self._event("content_part.done", content_index=0, part=part),
        ]

    def _part(self) -> JSONObject:
        return {"type": "output_text", "text": "".join(self._texts), "annotations": [], "logprobs": list(self._logprobs)}


class ReasoningItem(Item):
    """What the model thinks: in a summary, or as it is."""

    kind = "rs"

    def __init__(self, stem: str, index: int, wanted: Wanted) -> None:
        super().__init__(stem, index)
        self._wanted = wanted
        self._name = "reasoning_summary" if wanted.summary else "reasoning"
        self._place: JSONObject = {"summary_index": 0} if wanted.summary else {"content_index": 0}
        self._part_name = "reasoning_summary_part" if wanted.summary else "content_part"
        self._texts: list[str] = []

    def begin(self) -> list[JSONObject]:
        return [*super().begin(), self._event(f"{self._part_name}.added", **self._place, part=self._part())]

    def add(self, text: str) -> list[JSONObject]:
        self._texts.append(text)
        return [self._event(f"{self._name}_text.delta", **self._place, delta=text)]

    def shown(self) -> JSONObject:
        parts: list[JSON] = [] if self.status == IN_PROGRESS else [self._part()]
        item: JSONObject = {"id": self.id, "type": "reasoning", "summary": parts if self._wanted.summary else []}
        if not self._wanted.summary:
            item["content"] = parts
        if self._wanted.encrypted:
            item["encrypted_content"] = sealed("" if self._wanted.summary else "".join(self._texts))
        return item

    def _closing(self) -> list[JSONObject]:
        part = self._part()
        return [
            self._event(f"{self._name}_text.done", **self._place, text=part["text"]),
            self._event(f"{self._part_name}.done", **self._place, part=part),
        ]

    def _part(self) -> JSONObject:
        return {"type": "summary_text" if self._wanted.summary else "reasoning_text", "text": "".join(self._texts)}


class CallItem(Item):
    """A function that the model calls."""

    kind = "fc"

    def __init__(self, stem: str, index: int, call_id: str, name: str) -> None:
        super().__init__(stem, index)
        self._call_id = call_id
        self._name = name
        self._arguments: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Some servers write the arguments of several calls by turns."""
        try:
            json.loads("".join(self._arguments))
        except (ValueError, RecursionError):
            return False
        return True

    def add(self, arguments: str) -> list[JSONObject]:
        if not arguments:
            return []
        self._arguments.append(arguments)
        return [self._event("function_call_arguments.delta", delta=arguments)]

    def shown(self) -> JSONObject:
        return {
            "id": self.id,
            "type": "function_call",
            "status": self.status,
            "arguments": "".join(self._arguments),
            "call_id": self._call_id,
            "name": self._name,
        }

    def _closing(self) -> list[JSONObject]:
        return [self._event("function_call_arguments.done", arguments="".join(self._arguments))]


class Output:
    """The items of one reply, in the order in which they began."""

    def __init__(self, stem: str, wanted: Wanted) -> None:
        self._stem = stem
        self._wanted = wanted
        self._items: list[Item] = []
        self._opened: list[Item] = []  # those of them that have not ended
        self._calls: dict[JSON, CallItem] = {}

    def items(self) -> list[JSON]:
        """All of them, as they are by now."""
        return [item.shown() for item in self._items]

    def take(self, piece: Piece) -> list[JSONObject]:
        """The events of a piece of the reply."""
        events: list[JSONObject] = []
        reasoning, text, calls = (piece.delta.get(name) for name in ("reasoning_content", "content", "tool_calls"))
        if isinstance(reasoning, str) and reasoning:
            events += self._think(reasoning)
        logprobs = piece.logprobs if self._wanted.logprobs and not reasoning and not calls else ()
        if isinstance(text, str) and (text or logprobs):
            events += self._say(text, _logprobs_of(text, logprobs))
        elif logprobs:
            events += self._say("", logprobs)
        for call in calls if isinstance(calls, list) else []:
            events += self._call(call) if isinstance(call, dict) else []
        return events

    def end(self, *, cut: bool) -> list[JSONObject]:
        """Ends what is open. A reply without any item is an empty message. `cut`: there was no room for the rest of the last one."""
        events = [] if self._items else self._say("", ())
        last = len(self._items) - 1
        for item in self._opened:
            events += item.end(INCOMPLETE if cut and item.index == last else COMPLETED)
        self._opened = []
        return events

    def break_off(self) -> None:
        """What is open stays incomplete; nobody is told by an event of its own."""
        for item in self._opened:
            item.status = INCOMPLETE

    def _say(self, text: str, logprobs: Sequence[JSONObject]) -> list[JSONObject]:
        latest = self._items[-1] if self._items else None
        if isinstance(latest, MessageItem):
            return latest.add(text, logprobs)
        message = MessageItem(self._stem, len(self._items))
        events = self._begin(message)
        return events + (message.add(text, logprobs) if text or logprobs else [])

    def _think(self, text: str) -> list[JSONObject]:
        latest = self._items[-1] if self._items else None
        if isinstance(latest, ReasoningItem):
            return latest.add(text)
        reasoning = ReasoningItem(self._stem, len(self._items), self._wanted)
        return self._begin(reasoning) + reasoning.add(text)

    def _call(self, delta: JSONObject) -> list[JSONObject]:
        function = delta.get("function")
        said = function if isinstance(function, dict) else {}
        name, arguments = said.get("name"), said.get("arguments")
        events: list[JSONObject] = []
        call = self._calls.get(delta.get("index"))
        if call is None:
            call = CallItem(self._stem, len(self._items), str(delta.get("id", "")), name if isinstance(name, str) else "")
            self._calls[delta.get("index")] = call
            events = self._begin(call)
        if call.status == IN_PROGRESS and isinstance(arguments, str):
            events += call.add(arguments)
        return events

    def _begin(self, item: Item) -> list[JSONObject]:
        """Ends the items before it, except the latest calls whose arguments are not complete."""
        events: list[JSONObject] = []
        opened, self._opened = self._opened, []
        for other in opened[:-_MOST_OPEN]:
            events += other.end(COMPLETED)
        for other in opened[-_MOST_OPEN:]:
            if other.is_whole:
                events += other.end(COMPLETED)
            else:
                self._opened.append(other)
        self._items.append(item)
        self._opened.append(item)
        return events + item.begin()


def _logprobs_of(text: str, logprobs: tuple[JSONObject, ...]) -> tuple[JSONObject, ...]:
    """Those of the tokens that `text` is made of; before and after it there may be others, of reasoning and of calls."""
    tokens = [str(entry.get("token", "")) for entry in logprobs]
    start = "".join(tokens).rfind(text)
    if start < 0 or not text:
        return logprobs
    found, place = [], 0
    for entry, token in zip(logprobs, tokens, strict=True):
        if place + len(token) > start and place < start + len(text):
            found.append(entry)
        place += len(token)
    return tuple(found)
