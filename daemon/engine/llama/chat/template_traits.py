"""Finds out what a chat template can render, by rendering small conversations with it and looking for their words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from daemon.engine.llama.chat.call_style import style_of
from daemon.engine.llama.chat.conversation import arrange
from daemon.engine.llama.chat.traits import Traits
from daemon.records import JSONObject

Run: TypeAlias = Callable[[list[JSONObject], list[JSONObject], Traits], str]
"""Renders messages and tools as they are; raises `CannotRender`."""


class CannotRender(Exception):
    """The template refuses a conversation or fails over it; the text says why."""


_SYSTEM: JSONObject = {"role": "system", "content": "Probe-system."}
_LATE: JSONObject = {"role": "system", "content": "Probe-late."}
_USER: JSONObject = {"role": "user", "content": "Probe-user."}
_AGAIN: JSONObject = {"role": "user", "content": "Probe-again."}
_ANSWER: JSONObject = {"role": "assistant", "content": "Probe-answer."}
_MORE: JSONObject = {"role": "assistant", "content": "Probe-more."}
_TOOL: JSONObject = {
    "type": "function",
    "function": {
        "name": "probe_tool",
        "description": "A probe.",
        "parameters": {
            "type": "object",
            "properties": {"probe_key": {"type": "string", "description": "A key."}},
            "required": ["probe_key"],
        },
    },
}
_VALUES = ("probe-one", "probe-two")


def _call(index: int) -> JSONObject:
    arguments: JSONObject = {"probe_key": _VALUES[index]}
    return {"id": f"call_{index:024}", "type": "function", "function": {"name": "probe_tool", "arguments": arguments}}


def _result(index: int) -> JSONObject:
    return {"role": "tool", "tool_call_id": f"call_{index:024}", "content": f"Probe-result-{index}."}


def _calling(**fields: str) -> JSONObject:
    return {"role": "assistant", "content": "", "tool_calls": [_call(0)], **fields}


class _Probe:
    """One template under examination."""

    def __init__(self, run: Run, variables: set[str]) -> None:
        self._run = run
        self._variables = variables
        self.traits = Traits()

    def shows(self, traits: Traits, messages: list[JSONObject], *words: str, tools: bool = False) -> bool:
        """Whether all words come out, in this order."""
        text, at = self._text(traits, messages, tools), -1
        for word in words:
            at = text.find(word, at + 1)
            if at < 0:
                return False
        return True

    def _text(self, traits: Traits, messages: list[JSONObject], tools: bool) -> str:
        handed = [_TOOL] if tools and traits.tools else []
        try:
            return self._run(arrange(messages, handed, traits), handed, traits)
        except CannotRender:
            return ""

    def examine(self) -> Traits:
        """Each question is asked with what is known by then, and kept where the answer is yes."""
        self._turns()
        self._tools()
        self._calls()
        return self.traits

    def _turns(self) -> None:
        if not self.shows(self.traits, [_USER], "Probe-user"):
            trial = replace(self.traits, tools_always=True)
            self.traits = trial if self.shows(trial, [_USER], "Probe-user") else self.traits
        # In front, whatever comes after: a system text that moves to the last turn would make each prompt another from its beginning.
        whole = [_SYSTEM, _USER, _ANSWER, _AGAIN]
        self.traits = replace(self.traits, system=self.shows(self.traits, whole, "Probe-system", "Probe-user", "Probe-again"))
        traits = self.traits
        free = (
            self.shows(traits, [_USER, _AGAIN], "Probe-user", "Probe-again")
            and self.shows(traits, [_USER, _ANSWER, _MORE, _AGAIN], "Probe-user", "Probe-answer", "Probe-more", "Probe-again")
            and self.shows(traits, [_ANSWER, _USER], "Probe-answer", "Probe-user")
        )
        late = [_SYSTEM, _USER, _ANSWER, _LATE, _AGAIN]
        self.traits = replace(
            traits,
            free_turns=free,
            lone_system=self.shows(traits, [_SYSTEM], "Probe-system"),
            empty_turns=self.shows(traits, [_USER, {**_ANSWER, "content": ""}, _AGAIN], "Probe-user", "Probe-again"),
            several_system=self.shows(traits, [_SYSTEM, _LATE, _USER], "Probe-system", "Probe-late", "Probe-user"),
            late_system=self.shows(traits, late, "Probe-user", "Probe-answer", "Probe-late", "Probe-again"),
        )

    def _tools(self) -> None:
        ways = [("tools", "tools"), ("tools", "flat"), ("functions", "functions"), ("xml_tools", "xml_tools")]
        for variable, way in ways:
            trial = replace(self.traits, tools=way)
            if variable in self._variables and self.shows(trial, [_SYSTEM, _USER], "probe_tool", "probe_key", tools=True):
                self.traits = trial
                return

    def _calls(self) -> None:
        """How calls and results are written: the form that shows them cleanly, else one that shows them at all."""
        conversation = [_USER, _calling(), _result(0), _ANSWER, _AGAIN]
        best: tuple[int, Traits] | None = None
        for null_content in (False, True):
            for short_ids in (False, True):
                for form in ("object", "text"):
                    trial = replace(self.traits, arguments=form, results=True, short_ids=short_ids, null_content=null_content)
                    text = self._text(trial, conversation, True)
                    blemishes = ("{'probe_key" in text) + ('\\"probe_key' in text) + ("Probe-result-0" not in text)
                    if "probe-one" in text and (best is None or blemishes < best[0]):
                        best = (blemishes, trial)
            if best is not None:
                break
        if best is not None:
            self.traits = replace(best[1], results="Probe-result-0" in self._text(best[1], conversation, True))
            self._details()
        else:
            self.traits = replace(self.traits, results=self._shows_a_result())

    def _shows_a_result(self) -> bool:
        """Of a template that leaves out calls: a result right behind one."""
        trial = replace(self.traits, results=True)
        return self.shows(trial, [_USER, _calling(), _result(0)], "Probe-user", "Probe-result-0", tools=True)

    def _details(self) -> None:
        traits = self.traits
        two: JSONObject = {"role": "assistant", "content": "", "tool_calls": [_call(0), _call(1)]}
        orphans = self.shows(traits, [_USER, _result(0)], "Probe-user", "Probe-result-0", tools=True)
        parallel = self.shows(traits, [_USER, two, _result(0), _result(1)], *_VALUES, tools=True)
        beside = self.shows(traits, [_USER, _calling(content="Probe-answer."), _result(0)], "probe-one", tools=True)
        names = ("reasoning_content", "thinking", "reasoning")
        thought = [_SYSTEM, _USER, _calling(reasoning_content="Probe-thought."), _result(0)]
        reasoning = next((name for name in names if self.shows(replace(traits, reasoning=name), thought, "Probe-thought", tools=True)), "")
        both = [_USER, _calling(reasoning_content="Probe-thought.", content="Probe-answer."), _result(0)]
        self.traits = replace(
            traits,
            orphans=orphans,
            parallel=parallel,
            text_beside_calls=beside,
            reasoning=reasoning,
            reasoning_beside_text=not reasoning or self.shows(replace(traits, reasoning=reasoning), both, "probe-one", tools=True),
        )


def role_words(run: Run, traits: Traits, words: tuple[str, ...]) -> list[str]:
    """Of `words` those that the template itself puts between messages."""
    try:
        text = run(arrange([_SYSTEM, _USER, _ANSWER, _AGAIN], [], traits), [], traits)
    except CannotRender:
        return []
    return [
        word for word in words if word in text and len(word) > 2 and word.strip() == word and not word.isalnum() and "think" not in word
    ]


def traits_of(source: str, run: Run, variables: set[str]) -> Traits:
    """What a template can do.

    Args:
        run: renders with it.
        variables: those that its source reads from outside.
    """
    return replace(_Probe(run, variables).examine(), call_style=style_of(source))
