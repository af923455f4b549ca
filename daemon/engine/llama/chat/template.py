"""The model's own chat template: compiled, examined, and run over conversations. Needs `render_worker` around it to be safe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

import jinja2
import jinja2.meta

from daemon.engine.llama.chat.control_text import Hidden, Piece, pattern
from daemon.engine.llama.chat.conversation import arrange
from daemon.engine.llama.chat.template_sandbox import Refused, clock, environment
from daemon.engine.llama.chat.template_traits import CannotRender, role_words, traits_of
from daemon.engine.llama.chat.tool_messages import described
from daemon.engine.llama.chat.traits import Traits
from daemon.errors import BadRequest, DataError
from daemon.records import JSON, JSONObject

_LONGEST_REASON = 400  # characters; some templates say the whole message
_CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_OWN = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "strftime_now", "raise_exception"})
"""Variables that a request may not set."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is to be rendered."""

    messages: list[JSONObject]
    tools: list[JSONObject]
    values: JSONObject
    """Further variables, from the client."""
    day: date
    """What the template is told when it asks for the time."""
    most_characters: int = 1 << 20
    """A longer prompt cannot fit the window."""
    add_generation_prompt: bool = True


class TooLong(Exception):
    """The prompt is longer than `most_characters`; `characters` counts those that there were when rendering ended."""

    def __init__(self, characters: int) -> None:
        super().__init__(f"at least {characters} characters")
        self.characters = characters


class ChatTemplate:
    """A compiled chat template and what it can do."""

    def __init__(
        self,
        source: str | None,
        *,
        begin_text: str = "",
        end_text: str = "",
        control_texts: tuple[str, ...] = (),
        defined_texts: tuple[str, ...] = (),
        examine: bool = True,
    ) -> None:
        """Raises DataError for a template that does not compile.

        Args:
            source: None: ChatML.
            control_texts: of the control tokens.
            defined_texts: of tokens that the vocabulary reads in any text; those that mark roles are kept from clients like control tokens.
            examine: find out by trial what it can do; otherwise it is taken to do everything.
        """
        try:
            made = environment(begin_text, end_text)
            variables = jinja2.meta.find_undeclared_variables(made.parse(source or _CHATML))
            self._template = made.from_string(source or _CHATML)
        except (jinja2.TemplateError, SyntaxError, RecursionError, MemoryError, ValueError) as error:
            reason = str(error).rstrip(".") or "it takes too much memory"
            raise DataError(f"The model's chat template is broken: {reason}.", "Use another GGUF of this model.") from error
        self._controls = pattern(control_texts)
        self.traits = Traits(tools="tools" if "tools" in variables else "", arguments="object", results=True)
        if examine:
            self.traits = traits_of(source or _CHATML, self._try, variables)
            roles = tuple(word for word in role_words(self._try, self.traits, defined_texts))
            self._controls = pattern((*control_texts, *roles))

    def render(self, conversation: Conversation) -> list[Piece]:
        """The prompt in pieces.

        Raises:
            BadRequest: the template refuses this conversation; says what it refused.
            TooLong: the prompt cannot fit.
        """
        hidden = Hidden(self._controls, [])
        # First of all, so that what is written here for the template may hold control tokens.
        messages = [_object(hidden.hide(message)) for message in conversation.messages]
        tools = [_object(hidden.hide(tool)) for tool in _functions(conversation.tools)]
        values = {name: hidden.hide(value) for name, value in conversation.values.items()}
        refusal: CannotRender | None = None
        for traits, listed in self._ways(tools):
            try:
                return hidden.reveal(self._run(arrange(messages, listed, traits), listed, traits, replace(conversation, values=values)))
            except CannotRender as error:
                refusal = refusal or error
        reason = "".join(text for text, _ in hidden.reveal(str(refusal)))[:_LONGEST_REASON]
        raise BadRequest(f"The model's chat template cannot render this conversation: {reason}.", param="messages")

    def _ways(self, tools: list[JSONObject]) -> Iterator[tuple[Traits, list[JSONObject]]]:
        """How to render: as the template can; then with what it may have missed; then as if it could nearly nothing."""
        yield self.traits, tools
        whole = described(tools)
        if whole != tools:
            yield self.traits, whole
        yield self.traits.strictest, whole

    def _try(self, messages: list[JSONObject], tools: list[JSONObject], traits: Traits) -> str:
        try:
            return self._run(messages, tools, traits, Conversation(messages, tools, {}, date.today()))
        except TooLong as error:
            raise CannotRender(str(error)) from error

    def _run(self, messages: list[JSONObject], tools: list[JSONObject], traits: Traits, conversation: Conversation) -> str:
        """Render `messages` and `tools`; the rest comes from `conversation`."""
        given: dict[str, object] = {
            "tools": [] if traits.tools_always else None,
            "documents": None,
            "functions": "[]",
            "datetime": conversation.day.isoformat(),
            **conversation.values,
            **_handed(tools, traits),
            "messages": messages,
            "add_generation_prompt": conversation.add_generation_prompt,
            "strftime_now": clock(conversation.day),
        }
        parts: list[str] = []
        length = 0
        try:
            for part in self._template.generate(**given):
                parts.append(part)
                length += len(part)
                if length > conversation.most_characters:
                    raise TooLong(length)
        except Refused as error:
            raise CannotRender(f'it says "{error}"') from error
        except RecursionError as error:
            raise CannotRender("it nests too deep") from error
        except _FAILURES as error:
            raise CannotRender(str(error).rstrip(".") or type(error).__name__) from error
        return "".join(parts)


_FAILURES = (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, OSError, ImportError)
"""What an expression can raise; the last two where it needs a file, and may open none."""


def check_values(values: JSONObject) -> None:
    """Raises BadRequest for a variable that a request may not set, or that is no text, number or truth value."""
    for name, value in values.items():
        if name in _OWN:
            raise BadRequest(f"chat_template_kwargs may not set {name}.", "The request's own fields do.", param="chat_template_kwargs")
        if isinstance(value, list | dict):
            raise BadRequest(f"chat_template_kwargs.{name} must be a text, a number or true or false.", param="chat_template_kwargs")


def _functions(tools: list[JSONObject]) -> list[JSONObject]:
    """Those that are functions with a name; templates know no others."""
    return [tool for tool in tools if isinstance(function := tool.get("function"), dict) and isinstance(function.get("name"), str)]


def _handed(tools: list[JSONObject], traits: Traits) -> dict[str, object]:
    """The variable with the tools, in the template's form."""
    if not tools or not traits.tools:
        return {}
    if traits.tools == "flat":
        return {"tools": [tool["function"] for tool in tools]}
    if traits.tools == "functions":
        return {"functions": json.dumps(tools, ensure_ascii=False)}
    return {traits.tools: tools}


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}
