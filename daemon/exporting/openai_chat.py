"""OpenAI's fine-tuning lines. Of a good reply only that reply is to be learned: what the assistant said before has weight 0."""

from __future__ import annotations

from collections.abc import Iterator

from daemon.exporting.conversation import Conversation, Format
from daemon.exporting.messages import chat, with_tools
from daemon.records import JSON, JSONObject


class OpenAIFormat(Format):
    name = "openai"

    def lines(self, conversation: Conversation, good_only: bool) -> Iterator[JSONObject]:
        for dialogue in conversation.dialogues(good_only):
            prompt, reply = chat(dialogue.prompt, reasoning=False), chat([dialogue.reply], reasoning=False)
            if good_only:
                prompt = [_unlearned(message) for message in prompt]
            yield with_tools({"messages": [*prompt, *reply]}, dialogue.turn.inference.request)


def _unlearned(message: JSON) -> JSON:
    return {**message, "weight": 0} if isinstance(message, dict) and message.get("role") == "assistant" else message
