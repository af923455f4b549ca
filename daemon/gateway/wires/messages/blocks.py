"""Conversations of the messages wire in OpenAI's chat form.

The same history must become the same messages whenever it is sent, or the prompt would be read again and the session not be recognised:
cache marks are dropped, a single text block is a text, texts stay where they are, and what a client may or may not send along (a
billing header, signatures) leaves no trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from daemon.errors import BadRequest
from daemon.gateway.wires.fields import array, bad
from daemon.gateway.wires.messages.thinking import carried_in
from daemon.records import JSON, JSONObject, Message

_BILLING = "x-anthropic-billing-header:"
_written = json.JSONEncoder(ensure_ascii=False).encode  # made once: a long history holds many calls
_ROLES = ("user", "assistant", "system")
_PASSED = ("document", "container_upload")  # an engine that cannot read them says so


def conversation(body: JSONObject) -> tuple[Message, ...]:
    """The system text, then the messages.

    Raises:
        BadRequest: names the place that is wrong.
    """
    messages = array(body, "messages")
    if not messages:
        raise BadRequest("'messages' must hold at least one message.", param="messages")
    found: list[Message] = []
    system = body.get("system")
    if system is not None:
        found += _plain("system", _parts(system, "system"))
    turn: list[tuple[str, JSONObject]] | None = None  # of the assistant, which may come in several messages
    for index, message in enumerate(messages):
        role, content, name = _read(message, f"messages[{index}]")
        if role == "assistant":
            turn = [] if turn is None else turn
            turn += [(f"{name}[{place}]", block) for place, block in enumerate(_blocks(content, name))]
            continue
        made = list(_plain("system", _parts(content, name)) if role == "system" else _user(_blocks(content, name), name))
        if made and turn is not None:  # a system text without a word does not end the turn
            found.append(_assistant(turn))
            turn = None
        found += made
    if turn is not None:
        found.append(_assistant(turn))
    if all(message["role"] == "system" for message in found):
        raise BadRequest("'messages' must hold a message of the user's.", param="messages")
    return tuple(found)


def _read(message: JSON, name: str) -> tuple[str, JSON, str]:
    """Role, content, and the name of the content."""
    if not isinstance(message, dict):
        raise bad(name, "an object", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise bad(f"{name}.role", "one of user, assistant, system", role)
    return role, message.get("content"), f"{name}.content"


def _user(blocks: list[JSONObject], name: str) -> Iterator[Message]:
    """Each tool result is a message of its own; what stands between them is the user's."""
    waiting: list[JSONObject] = []
    empty = True
    for index, block in enumerate(blocks):
        if block["type"] != "tool_result":
            waiting += _part(block, f"{name}[{index}]")
            continue
        yield from _plain("user", waiting)
        waiting, empty = [], False
        yield _result(block, f"{name}[{index}]")
    if waiting or empty:
        yield _holding("user", waiting)


def _result(block: JSONObject, name: str) -> Message:
    call = block.get("tool_use_id")
    if not isinstance(call, str) or not call:
        raise bad(f"{name}.tool_use_id", "the id of a tool call", call)
    content = block.get("content")
    message = _holding("tool", [] if content is None else _parts(content, f"{name}.content"))
    message["tool_call_id"] = call
    if block.get("is_error") is True:
        message["is_error"] = True  # chat has no such field; signals and another messages server read it
    return message


def _assistant(turn: list[tuple[str, JSONObject]]) -> Message:
    """The message of one turn; its blocks come with their names."""
    parts: list[JSONObject] = []
    reasoning: list[str] = []
    calls: list[JSON] = []
    for name, block in turn:
        kind = block["type"]
        if kind == "tool_use":
            calls.append(_call(block, name))
        elif kind in ("thinking", "redacted_thinking"):
            reasoning.append(_reasoning(block))
        else:
            parts += _part(block, name)
    message = _holding("assistant", parts)
    if calls and not parts:
        message["content"] = None
    if any(reasoning):
        message["reasoning_content"] = "".join(reasoning)
    if calls:
        message["tool_calls"] = calls
    return message


def _call(block: JSONObject, name: str) -> JSONObject:
    call, tool, given = block.get("id"), block.get("name"), block.get("input", {})
    if not isinstance(call, str) or not call:
        raise bad(f"{name}.id", "a text", call)
    if not isinstance(tool, str) or not tool:
        raise bad(f"{name}.name", "a text", tool)
    if not isinstance(given, dict):
        raise bad(f"{name}.input", "an object", given)
    return {"id": call, "type": "function", "function": {"name": tool, "arguments": _written(given)}}


def _reasoning(block: JSONObject) -> str:
    shown = block.get("thinking")
    if isinstance(shown, str) and shown:
        return shown
    kept = block.get("signature") or block.get("data")
    return carried_in(kept) if isinstance(kept, str) else ""


def _parts(content: JSON, name: str) -> list[JSONObject]:
    return [part for index, block in enumerate(_blocks(content, name)) for part in _part(block, f"{name}[{index}]")]


def _blocks(content: JSON, name: str) -> list[JSONObject]:
    """A text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise bad(name, "a text or an array of blocks", content)
    found: list[JSONObject] = []
    for index, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise bad(f"{name}[{index}]", "an object with a type", block)
        found.append(block)
    return found


def _part(block: JSONObject, name: str) -> list[JSONObject]:
    """A block as parts of a chat message; none for what only Anthropic's own tools leave behind, and for what is not known."""
    kind = block["type"]
    if kind == "text":
        text = block.get("text")
        if not isinstance(text, str):
            raise bad(f"{name}.text", "a text", text)
        return [] if text.startswith(_BILLING) else [_text(text)]
    if kind == "image":
        return [_image(block, name)]
    if kind == "document":
        return _document(block, name)
    if kind == "search_result":
        heading = "\n".join(str(block[field]) for field in ("title", "source") if isinstance(block.get(field), str))
        return [*([_text(heading)] if heading else []), *_inner(block, name)]
    if kind == "tool_reference":
        return [_text(f"The tool {block.get('tool_name')} can be called now.")]
    return [block] if kind in _PASSED else []


def _image(block: JSONObject, name: str) -> JSONObject:
    source = block.get("source")
    if not isinstance(source, dict):
        raise bad(f"{name}.source", "an object", source)
    kind, data = source.get("media_type"), source.get("data")
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return {"type": "image_url", "image_url": {"url": source["url"]}}
    if source.get("type") == "base64" and isinstance(kind, str) and isinstance(data, str):
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
    if source.get("type") == "file":  # known to the server that has it
        return {"type": "image", "source": source}
    raise bad(f"{name}.source", "of type base64 with media_type and data, url or file", source.get("type"))


def _document(block: JSONObject, name: str) -> list[JSONObject]:
    """A text is read as such, a PDF goes as a file; other documents stay as they are."""
    source, title = block.get("source"), block.get("title")
    if not isinstance(source, dict):
        raise bad(f"{name}.source", "an object", source)
    heading = [_text(title)] if isinstance(title, str) and title else []
    data = source.get("data")
    if source.get("type") == "text" and isinstance(data, str):
        return [*heading, _text(data)]
    if source.get("type") == "content":
        return [*heading, *_inner(source, f"{name}.source")]
    if source.get("type") == "base64" and isinstance(data, str):
        file: JSONObject = {"filename": title or "document", "file_data": f"data:{source.get('media_type')};base64,{data}"}
        return [{"type": "file", "file": file}]
    return [{field: value for field, value in block.items() if field != "cache_control"}]


def _inner(block: JSONObject, name: str) -> list[JSONObject]:
    """The texts and images that a block holds; no deeper."""
    found: list[JSONObject] = []
    for index, inner in enumerate(_blocks(block.get("content", []), f"{name}.content")):
        if inner["type"] in ("text", "image"):
            found += _part(inner, f"{name}.content[{index}]")
    return found


def _plain(role: str, parts: list[JSONObject]) -> Iterator[Message]:
    if parts:
        yield _holding(role, parts)


def _holding(role: str, parts: list[JSONObject]) -> Message:
    if not parts:
        return {"role": role, "content": ""}
    if len(parts) == 1 and parts[0]["type"] == "text":
        return {"role": role, "content": parts[0]["text"]}
    return {"role": role, "content": list(parts)}


def _text(text: str) -> JSONObject:
    return {"type": "text", "text": text}
