"""What a chat template can render."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Traits:
    """What a template can render. Found by rendering small conversations (`template_traits`)."""

    tools: str = ""
    """The variable that it reads tools from, or "flat": `tools` without OpenAI's wrapping; empty: it knows none."""
    tools_always: bool = False
    """It wants a list of tools also where there are none."""
    arguments: str = ""
    """How it wants a past call's arguments, "object" or "text"; empty: it leaves calls out."""
    call_style: str = "hermes"
    """How calls are written that it leaves out (`call_style`)."""
    results: bool = False
    """It writes what tools gave back."""
    orphans: bool = True
    """It writes what a tool gave back also where no call is before it."""
    parallel: bool = True
    """It writes several calls of one message."""
    short_ids: bool = False
    """It refuses ids of calls that are not nine letters and digits."""
    null_content: bool = False
    """It writes the calls of a message only if there is no text beside them."""
    text_beside_calls: bool = True
    """It writes calls also where there is text beside them."""
    reasoning_beside_text: bool = True
    """It takes a message with reasoning, text and calls."""
    reasoning: str = ""
    """The field that it reads past reasoning from; empty: it reads none."""
    system: bool = True
    several_system: bool = True
    late_system: bool = True
    """It writes a system message in mid-conversation, in its place."""
    lone_system: bool = True
    """It writes a system message also where there is no user's."""
    free_turns: bool = True
    """Users and assistants need not take turns."""
    empty_turns: bool = True
    """It takes an assistant's message that says nothing."""

    @property
    def writes_calls(self) -> bool:
        return bool(self.arguments)

    @property
    def strictest(self) -> Traits:
        """As if it could do nothing that some templates cannot: the last try with a conversation that it refused."""
        return replace(
            self,
            orphans=False,
            parallel=False,
            text_beside_calls=False,
            reasoning_beside_text=False,
            system=False,
            late_system=False,
            free_turns=False,
            empty_turns=False,
        )
