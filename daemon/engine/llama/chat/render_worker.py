"""The process that runs the chat template: `python -P -m daemon.engine.llama.chat.render_worker`, started by `renderer`.

A template is a program that came with a model. Here it may loop or allocate for ever: the kernel ends the process at its limits, and
no other request, nor the thread that computes tokens, has waited for it. It opens no file and starts no process either.
"""

from __future__ import annotations

import sys
from datetime import date

from daemon.child_main import prepare, read_messages, send
from daemon.engine.llama.chat.template import ChatTemplate, Conversation, TooLong, check_values
from daemon.engine.llama.confined_main import OUT_OF_MEMORY, confine, limit_time
from daemon.errors import BadRequest, DataError, ReefError
from daemon.records import JSON, JSONObject

_USUAL = """{% for m in messages %}{{ '\\u00e9' ~ m | tojson ~ m.content | pprint ~ strftime_now('%B') }}{% endfor %}{{ 1 + 'a' }}"""


def main() -> int:
    prepare()
    try:
        return _serve()
    except MemoryError:
        return OUT_OF_MEMORY


def _serve() -> int:
    messages = read_messages()
    first = next(messages, None)
    if first is None:
        return 0
    ChatTemplate(_USUAL)  # imports what is imported on first use, while files can still be opened
    cpu_limit_s, memory = first.get("cpu_limit_s"), first.get("memory_limit_bytes")
    confine(memory if isinstance(memory, int) else 0)
    limit_s = float(cpu_limit_s) if isinstance(cpu_limit_s, int | float) else 0.0
    try:
        limit_time(limit_s)
        template = ChatTemplate(
            _text(first.get("source")) or None,
            begin_text=_text(first.get("begin_text")),
            end_text=_text(first.get("end_text")),
            control_texts=tuple(map(str, _list(first.get("control_texts")))),
            defined_texts=tuple(map(str, _list(first.get("defined_texts")))),
            examine=first.get("examine") is not False,
        )
        limit_time(0)
    except DataError as error:
        send(_error(error))
        return 1
    send({"knows_tools": bool(template.traits.tools)})
    for message in messages:
        limit_time(limit_s)
        answer = _answer(template, message)
        limit_time(0)
        send(answer)
    return 0


def _answer(template: ChatTemplate, message: JSONObject) -> JSONObject:
    """The prompt in pieces, or an error."""
    try:
        values = message.get("values")
        conversation = Conversation(
            messages=[item for item in _list(message.get("messages")) if isinstance(item, dict)],
            tools=[item for item in _list(message.get("tools")) if isinstance(item, dict)],
            values=values if isinstance(values, dict) else {},
            day=date.fromisoformat(_text(message.get("day"))),
            most_characters=most if isinstance(most := message.get("most_characters"), int) else 0,
            add_generation_prompt=message.get("add_generation_prompt") is not False,
        )
        check_values(conversation.values)
        return {"pieces": [[text, special] for text, special in template.render(conversation)]}
    except TooLong as error:
        return {"too_long": error.characters}
    except ReefError as error:
        return _error(error)
    except (RecursionError, ValueError):
        return _error(BadRequest("The conversation is nested too deep, or no text.", param="messages"))


def _error(error: ReefError) -> JSONObject:
    return {"error": error.message, "hint": error.hint, "param": error.param}


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


if __name__ == "__main__":
    sys.exit(main())
