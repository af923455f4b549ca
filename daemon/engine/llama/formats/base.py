"""What a tool format is: how to recognise it in a chat template, how to read it from a reply, how to make the model write it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from daemon.engine.base import Delta
from daemon.records import JSONObject


class Parser(ABC):
    """One reply as it grows. What might become a call is held back; what turns out to be none comes out as text, once."""

    note: str = ""
    """What the client should know at the end, such as that a call could not be read."""

    @abstractmethod
    def push(self, text: str) -> list[Delta]:
        """Take the next piece; returns what may be shown now."""

    @abstractmethod
    def finish(self) -> list[Delta]:
        """The reply is over: everything that was held back."""


class ToolFormat(ABC):
    """One family's way. Stateless."""

    name: str
    markers: tuple[str, ...] = ()
    """Texts of control tokens that the parser must see; all others are left out of the reply."""
    reasoning: tuple[str, str] = ("<think>", "</think>")
    """What is around reasoning. A reply may begin with it, or go on with it where the prompt has opened it."""
    before_text: str = ""
    """Lark terms that a reply held to a JSON schema must begin with in this family."""

    @abstractmethod
    def recognises(self, template: str) -> bool:
        """Whether this chat template (its source) belongs to the family."""

    @abstractmethod
    def parser(self, tools: tuple[JSONObject, ...], prompt_end: str) -> Parser:
        """A parser for one reply.

        Args:
            tools: the request's function tools, OpenAI form; without any, no call is looked for, reasoning is.
            prompt_end: the last characters of the rendered prompt: it may have opened the reasoning already.
        """

    def opens_reasoning(self, prompt_end: str) -> bool:
        """Whether the prompt's last words have opened the reasoning, so that the reply begins inside it."""
        return prompt_end.rstrip().endswith(self.reasoning[0].rstrip())

    @abstractmethod
    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        """A Lark grammar (llguidance's dialect) of a reply that is one call of one of `tools`, or with `parallel` one or more.

        Markers are plain strings in it, and reasoning is not part of it. `parameters` of each tool is put in as it is.
        """

    def unheld(self, parameters: JSONObject) -> str:
        """The dotted place in one tool's prepared parameters that `call_grammar` cannot hold arguments to; empty: there is none."""
        return ""
