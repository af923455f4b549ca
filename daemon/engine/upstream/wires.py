"""The wires that another server may speak, in the order in which a request is translated to one of them."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.engine.base import GenerateRequest
from daemon.engine.upstream.chat.reply import ChatReader
from daemon.engine.upstream.chat.request import body_of
from daemon.engine.upstream.messages.wire import MessagesWire
from daemon.engine.upstream.reader import ReplyReader
from daemon.engine.upstream.responses.wire import ResponsesWire
from daemon.engine.upstream.wire import UpstreamWire
from daemon.errors import Unsupported
from daemon.records import JSONObject


class ChatWire(UpstreamWire):
    name, path = "chat", "chat/completions"

    def body(self, request: GenerateRequest, model: str) -> JSONObject:
        return body_of(request, model)

    def reader(self) -> ReplyReader:
        return ChatReader()


class CompletionsWire(ChatWire):
    """A plain text to go on with; its chunks differ from the chat wire's in one field."""

    name, path = "completions", "completions"


WIRES: dict[str, UpstreamWire] = {wire.name: wire for wire in (ChatWire(), CompletionsWire(), ResponsesWire(), MessagesWire())}
_HINT = "Add it to engine.wires if the server speaks it."


def wire_for(request: GenerateRequest, spoken: Sequence[str]) -> UpstreamWire:
    """The wire for a request that is translated, among those that the server speaks.

    Raises:
        Unsupported: none of them can carry it.
    """
    if request.text is not None:
        if CompletionsWire.name not in spoken:
            raise Unsupported("The upstream does not complete plain texts.", _HINT, param="prompt")
        return WIRES[CompletionsWire.name]
    for name, wire in WIRES.items():
        if name in spoken and name != CompletionsWire.name:
            return wire
    raise Unsupported("The upstream holds no conversations.", _HINT, param="messages")
