"""Renders conversations in a process of their own (`render_worker`), and starts another when a template has brought it down."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from daemon.engine.llama.chat.control_text import Piece
from daemon.engine.llama.chat.template import Conversation, TooLong
from daemon.engine.llama.confined import ConfinedProcess, Ended
from daemon.errors import BadRequest, DataError, EngineError
from daemon.records import JSONObject

_MODULE = "daemon.engine.llama.chat.render_worker"


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """A chat template and the words that it shares with the vocabulary."""

    source: str | None
    begin_text: str = ""
    end_text: str = ""
    control_texts: tuple[str, ...] = ()
    defined_texts: tuple[str, ...] = ()

    def as_json(self) -> JSONObject:
        words: JSONObject = {"control_texts": list(self.control_texts), "defined_texts": list(self.defined_texts)}
        return {"source": self.source, "begin_text": self.begin_text, "end_text": self.end_text, **words}


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one process that renders."""

    cpu_limit_s: float = 2.0
    """Computing time for one conversation, or for getting to know the template. Templates take some hundredths of a second, the slowest
    known one for a thousand messages takes one."""
    memory_limit_bytes: int = 1 << 30
    """Of its whole address space; a tenth of it is Python's own."""


class Renderer:
    """One process; calls from several threads wait for one another."""

    def __init__(self, template: TemplateSource, limits: Limits | None = None) -> None:
        self._template = template
        self._limits = limits or Limits()
        self._process = ConfinedProcess(_MODULE, "chat templates")
        self._lock = threading.Lock()
        self._knows_tools = False
        self._examine = True

    @property
    def knows_tools(self) -> bool:
        """Whether the template writes the request's tools; otherwise a prompt of ours does."""
        return self._knows_tools

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid

    def start(self) -> None:
        """Start the process, compile and examine the template. Raises DataError if that fails."""
        with self._lock:
            self._start()

    def render(self, conversation: Conversation) -> list[Piece]:
        """The prompt in pieces.

        Raises:
            BadRequest: the template refuses this conversation, or takes too much time or memory over it.
            TooLong: the prompt cannot fit.
        """
        request: JSONObject = {
            "messages": list(conversation.messages),
            "tools": list(conversation.tools),
            "values": conversation.values,
            "day": conversation.day.isoformat(),
            "most_characters": conversation.most_characters,
            "add_generation_prompt": conversation.add_generation_prompt,
        }
        with self._lock:
            answer = self._answer(request)
        if isinstance(characters := answer.get("too_long"), int):
            raise TooLong(characters)
        if "error" in answer:
            param = answer.get("param")
            raise BadRequest(str(answer["error"]), str(answer.get("hint", "")), param=param if isinstance(param, str) else None)
        return [(str(piece[0]), piece[1] is True) for piece in _lists(answer.get("pieces"))]

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _start(self) -> None:
        try:
            self._process.start()
        except OSError as error:
            raise EngineError(f"The process for chat templates cannot be started: {error.strerror}.", "Try again in a moment.") from error
        request = {**self._template.as_json(), **asdict(self._limits)}
        try:
            answer = self._process.ask({**request, "examine": self._examine})
        except Ended as ended:
            if not self._examine or not ended.limit:
                raise DataError("The model's chat template cannot be read.", "Use another GGUF of this model.") from ended
            # It may still do for most conversations: each request has the same limits.
            self._examine = False
            self._start()
            return
        if "error" in answer:
            self.close()
            raise DataError(str(answer["error"]), str(answer.get("hint", "")))
        self._knows_tools = answer.get("knows_tools") is True

    def _answer(self, request: JSONObject) -> JSONObject:
        """Ask; once more if something else than the template brought the process down."""
        for attempt in (1, 2):
            if not self._process.runs:
                self._start()
            try:
                return self._process.ask(request)
            except Ended as ended:
                if ended.limit:
                    reason = f"The model's chat template takes too much {ended.limit} for this conversation."
                    raise BadRequest(reason, param="messages") from ended
                if attempt == 2:
                    break
        raise EngineError("The process for chat templates gave no answer.", "Try again in a moment.")


def _lists(value: object) -> Iterator[list[object]]:
    return (item for item in value if isinstance(item, list) and len(item) == 2) if isinstance(value, list) else iter(())
