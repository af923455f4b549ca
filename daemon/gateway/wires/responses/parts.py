"""The content of an item on the responses wire, as the content of a message in chat form."""

from __future__ import annotations

import base64

from daemon.errors import BadRequest
from daemon.gateway.wires.fields import bad
from daemon.records import JSON, JSONObject

_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_SEAL = "reef:"
_NO_FILES = "Reef keeps no files: send it in the request, as base64."


def content_of(value: JSON, name: str) -> JSON:
    """A text, or parts: texts, images, files, sound. What is one text alone becomes that text; kinds that are not known stay as they are.

    Raises:
        BadRequest: names the part that is wrong, or that refers to what is not here.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise bad(name, "a text or an array of parts", value)
    parts: list[JSON] = [_part(part, f"{name}[{index}]") for index, part in enumerate(value)]
    if not parts:
        return ""
    first = parts[0]
    return first["text"] if len(parts) == 1 and isinstance(first, dict) and first.get("type") == "text" else parts


def joined_text(value: JSON, name: str) -> str:
    """All that the parts say."""
    if value is None:
        return ""
    if not isinstance(value, list):
        raise bad(name, "an array of parts", value)
    texts: list[str] = []
    for index, part in enumerate(value):
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            raise bad(f"{name}[{index}].text", "a text", text)
        texts.append(text)
    return "\n\n".join(texts)


def sealed(reasoning: str) -> str:
    """`encrypted_content` of our own reasoning. It is not encrypted: some clients send reasoning back only if it has this, and some of
    them drop what it says beside it. Empty where that is kept."""
    return _SEAL + base64.b64encode(reasoning.encode("utf-8", "surrogatepass")).decode("ascii")


def unsealed(value: JSON) -> str:
    """What `sealed` was given; empty for what other servers have encrypted."""
    if not isinstance(value, str) or not value.startswith(_SEAL):
        return ""
    try:
        return base64.b64decode(value.removeprefix(_SEAL), validate=True).decode("utf-8", "surrogatepass")
    except ValueError:
        return ""


def _part(part: JSON, name: str) -> JSONObject:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str):
        raise bad(name, "an object with a type", part)
    if kind in _TEXTS:
        return {"type": "text", "text": _text(part, "text", name)}
    if kind == "refusal":
        return {"type": "text", "text": _text(part, "refusal", name)}
    if kind in ("input_image", "computer_screenshot"):
        return _image(part, name)
    if kind == "input_file":
        return _file(part, name)
    return part


def _text(part: JSONObject, field: str, name: str) -> str:
    value = part.get(field)
    if not isinstance(value, str):
        raise bad(f"{name}.{field}", "a text", value)
    return value


def _image(part: JSONObject, name: str) -> JSONObject:
    if part.get("image_url") is None and part.get("file_id") is not None:
        raise BadRequest(f"'{name}.file_id' names a file that is not here.", _NO_FILES, param=f"{name}.file_id")
    image: JSONObject = {"url": _text(part, "image_url", name)}
    if part.get("detail") is not None:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image}


def _file(part: JSONObject, name: str) -> JSONObject:
    for field in ("file_id", "file_url"):
        if part.get(field) is not None:
            raise BadRequest(f"'{name}.{field}' names a file that is not here.", _NO_FILES, param=f"{name}.{field}")
    file: JSONObject = {"file_data": _text(part, "file_data", name)}
    if part.get("filename") is not None:
        file["filename"] = part["filename"]
    return {"type": "file", "file": file}
