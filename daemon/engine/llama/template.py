"""The model's own chat template: Jinja in a sandbox, bounded in output and time, with the helpers that templates expect.

Control tokens are read from the template's own text only. A message that contains `<|im_end|>` stays text: such words are
replaced by marks while the template runs, and tokenised apart afterwards.
"""

from __future__ import annotations

import ctypes
import json
import re
import threading
from datetime import datetime
from types import TracebackType

import jinja2
import jinja2.ext
import jinja2.runtime
import jinja2.sandbox

from daemon import json_text
from daemon.errors import BadRequest, DataError
from daemon.records import JSON, JSONObject

_OUTPUT_LIMIT = 32 << 20  # characters
_TIME_LIMIT_S = 10.0
_MARK = "\ue0a5{}\ue0a6"  # private-use characters around a number
_MARKED = re.compile("\ue0a5(\\d+)\ue0a6")
_FALLBACK = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


class _OutOfTime(Exception):
    """Raised inside a template that runs too long."""


class _Deadline:
    """Interrupts this thread's Python code after some seconds, by raising `_OutOfTime` in it."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._raise, [threading.get_ident()])
        self._lock = threading.Lock()
        self._over = False

    def _raise(self, thread: int) -> None:
        with self._lock:
            if not self._over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_OutOfTime))

    def __enter__(self) -> None:
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._over = True
        self._timer.cancel()


class _Refused(Exception):
    """A template called raise_exception."""


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The sandbox, which also refuses products and powers that would fill the memory in one step."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: object, right: object) -> object:
        if operator == "*":
            for repeated, count in ((left, right), (right, left)):
                if isinstance(repeated, (str, list, tuple)) and isinstance(count, int) and len(repeated) * count > _OUTPUT_LIMIT:
                    raise _Refused("it multiplies a text too often")
        if operator == "**" and not (isinstance(right, (int, float)) and abs(right) <= 64):
            raise _Refused("it raises a number to a great power")
        result: object = super().call_binop(context, operator, left, right)
        return result


def _raise_exception(message: str) -> None:
    raise _Refused(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _tojson(value: object, ensure_ascii: bool = False, indent: int | None = None, sort_keys: bool = False) -> str:
    """Plain JSON, not the HTML-escaped form of Jinja's own filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, sort_keys=sort_keys)


class ChatTemplate:
    """A compiled chat template."""

    def __init__(self, source: str | None, *, begin_text: str = "", end_text: str = "", control_texts: tuple[str, ...] = ()) -> None:
        """Raises DataError for a template that does not compile. Without `source`, ChatML."""
        self.source = source or _FALLBACK
        environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
        environment.filters["tojson"] = _tojson
        environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now, bos_token=begin_text, eos_token=end_text)
        try:
            self._template = environment.from_string(self.source)
        except jinja2.TemplateError as error:
            raise DataError(f"The model's chat template is broken: {error}.", "Use another GGUF of this model.") from error
        self.knows_tools = re.search(r"\btools\b", self.source) is not None
        self._begin_text = begin_text
        self._controls = re.compile("|".join(map(re.escape, sorted(control_texts, key=len, reverse=True)))) if control_texts else None

    def render(self, messages: list[JSONObject], tools: list[JSONObject], *, add_generation_prompt: bool = True) -> list[tuple[str, bool]]:
        """Returns the prompt in pieces: text, and whether control tokens in it count.

        Raises:
            BadRequest: the template refuses this conversation, or takes too long over it.
        """
        hidden: list[str] = []
        prepared = [self._prepare(message, hidden) for message in messages]
        values: dict[str, object] = {"messages": prepared, "add_generation_prompt": add_generation_prompt}
        if tools and self.knows_tools:
            values["tools"] = [self._hide(tool, hidden) for tool in tools]
        text = self._run(values)
        pieces: list[tuple[str, bool]] = []
        at = 0
        for mark in _MARKED.finditer(text):
            if (number := int(mark[1])) < len(hidden):
                pieces += [(text[at : mark.start()], True), (hidden[number], False)]
                at = mark.end()
        pieces.append((text[at:], True))
        return [piece for piece in pieces if piece[0]]

    def starts_itself(self, text: str) -> bool:
        """Whether a rendered prompt already begins with the begin-of-text token."""
        return bool(self._begin_text) and text.startswith(self._begin_text)

    def _run(self, values: dict[str, object]) -> str:
        parts: list[str] = []
        length = 0
        try:
            with _Deadline(_TIME_LIMIT_S):
                for part in self._template.generate(**values):
                    parts.append(part)
                    length += len(part)
                    if length > _OUTPUT_LIMIT:
                        raise BadRequest("The chat template makes too long a prompt of this conversation.", param="messages")
        except _OutOfTime as error:
            raise BadRequest(f"The chat template took more than {_TIME_LIMIT_S:.0f} s.", param="messages") from error
        except _Refused as error:
            raise BadRequest(f"The model's chat template refuses this conversation: {error}.", param="messages") from error
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            raise BadRequest(f"The model's chat template cannot render this conversation: {error}.", param="messages") from error
        except MemoryError as error:
            raise BadRequest("The chat template takes too much memory for this conversation.", param="messages") from error
        return "".join(parts)

    def _prepare(self, message: JSONObject, hidden: list[str]) -> JSON:
        prepared = dict(message)
        prepared["content"] = _plain(message.get("content"))
        if prepared.get("role") == "developer":
            prepared["role"] = "system"
        calls = prepared.get("tool_calls")
        if isinstance(calls, list):
            prepared["tool_calls"] = [_parsed_call(call) for call in calls]
        return self._hide(prepared, hidden)

    def _hide(self, value: JSON, hidden: list[str]) -> JSON:
        """Replace control words in every text, names of fields too, by marks; `hidden` collects them."""
        if isinstance(value, str):
            return self._hide_text(value, hidden)
        if isinstance(value, list):
            return [self._hide(item, hidden) for item in value]
        if isinstance(value, dict):
            return {self._hide_text(key, hidden): self._hide(item, hidden) for key, item in value.items()}
        return value

    def _hide_text(self, text: str, hidden: list[str]) -> str:
        def mark(match: re.Match[str]) -> str:
            hidden.append(match[0])
            return _MARK.format(len(hidden) - 1)

        text = text.replace("\ue0a5", "\ufffd").replace("\ue0a6", "\ufffd")
        return self._controls.sub(mark, text) if self._controls else text


def _plain(content: JSON) -> str:
    """Content as one text: parts are joined, null is empty."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict) and part.get("type", "text") == "text")
    return content if isinstance(content, str) else ""


def _parsed_call(call: JSON) -> JSON:
    """Templates expect a tool call's arguments as an object; OpenAI sends them as JSON text."""
    if not isinstance(call, dict) or not isinstance(function := call.get("function"), dict):
        return call
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        return call
    try:
        parsed = json_text.parse(arguments)
    except ValueError:
        parsed = arguments
    return {**call, "function": {**function, "arguments": parsed}}
