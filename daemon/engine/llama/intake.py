"""The worker's front desk: reads the daemon's messages, renders and tokenises, and hands the main thread what is to be computed.

It has a thread of its own, so that a long prompt being split, or a LoRA being verified, holds up no running stream.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeAlias

from pydantic import ValidationError

from daemon.child_main import send
from daemon.engine.llama.formats.plain import PlainParser
from daemon.engine.llama.lora_file import check_lora_file
from daemon.engine.llama.protocol import (
    GenerateCall,
    LoadCall,
    LoRAFile,
    RenderCall,
    ScoreCall,
    TokenizeCall,
    UnloadCall,
    error_to_json,
    sampling_from_json,
)
from daemon.engine.llama.reply import ReplyText
from daemon.engine.llama.sampling import Sampler, check_sampling
from daemon.engine.llama.sequence import Job, Score, Sequence
from daemon.engine.llama.template import ChatTemplate
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.errors import BadRequest, ContextOverflow, EngineError, ReefError
from daemon.gguf import GGUFHeader
from daemon.records import JSONObject


@dataclass(frozen=True, slots=True)
class Submit:
    job: Job
    lora: LoRAFile | None


@dataclass(frozen=True, slots=True)
class Cancel:
    id: int


@dataclass(frozen=True, slots=True)
class Load:
    id: int
    lora: LoRAFile


@dataclass(frozen=True, slots=True)
class Unload:
    id: int
    lora_id: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The daemon has closed our stdin or is gone."""


Command: TypeAlias = Submit | Cancel | Load | Unload | Stop


class Intake:
    """Turns messages into commands; answers itself what needs no computing."""

    def __init__(
        self, header: GGUFHeader, vocabulary: Vocabulary, template: ChatTemplate, context_tokens: int, commands: SimpleQueue[Command]
    ) -> None:
        self._header = header
        self._vocabulary = vocabulary
        self._template = template
        self._context_tokens = context_tokens
        self._commands = commands
        self._checked: set[tuple[str, Path]] = set()

    def run(self, messages: Iterator[JSONObject]) -> None:
        """Until there are no more. Whatever goes wrong with a message ends its call with an error, and touches no other call."""
        for message in messages:
            call = message.get("id")
            number = call if isinstance(call, int) else -1
            try:
                self._handle(str(message.get("type")), {key: value for key, value in message.items() if key != "type"}, number)
            except ReefError as error:
                send(error_to_json(number, error))
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"])
                send(error_to_json(number, BadRequest(f"{field}: {first['msg']}.", param=field)))
            except Exception:  # noqa: BLE001 - the top of this thread, which runs the model's own template
                traceback.print_exc()
                send(error_to_json(number, EngineError("The engine could not prepare this request.", "Its log, engine.log, says why.")))
        self._commands.put(Stop())

    def _handle(self, kind: str, body: JSONObject, number: int) -> None:
        if kind == "generate":
            self._generate(GenerateCall.model_validate(body))
        elif kind == "cancel":
            self._commands.put(Cancel(number))
        elif kind == "score":
            self._score(ScoreCall.model_validate(body))
        elif kind == "tokenize":
            text = TokenizeCall.model_validate(body)
            send({"type": "result", "id": number, "value": list(self._vocabulary.tokenize(text.text, special=text.special))})
        elif kind == "render":
            call = RenderCall.model_validate(body)
            tokens = self._render(call.messages, call.tools, call.add_generation_prompt)
            send({"type": "result", "id": number, "value": list(tokens)})
        elif kind == "load_lora":
            load = LoadCall.model_validate(body)
            self._check(load.lora)
            self._commands.put(Load(number, load.lora))
        elif kind == "unload_lora":
            self._commands.put(Unload(number, UnloadCall.model_validate(body).lora_id))
        else:
            raise BadRequest(f"The engine worker knows no message of type {kind}.")

    def _generate(self, call: GenerateCall) -> None:
        if call.max_tokens is not None and call.max_tokens < 1:
            raise BadRequest("max_tokens must be at least 1.", param="max_tokens")
        sampling = sampling_from_json(call.sampling)
        check_sampling(sampling, self._vocabulary.size, call.top_logprobs)
        prompt = self._render(call.messages, call.tools, True)
        self._fits(len(prompt) + 1)
        room = self._context_tokens - len(prompt)
        self._check(call.lora)
        job = Sequence(
            call.id,
            prompt,
            call.lora.id if call.lora else None,
            call.priority,
            sampler=Sampler(sampling, prompt, top_logprobs=call.top_logprobs, pieces=self._vocabulary),
            reply=ReplyText(sampling.stop, PlainParser()),
            max_tokens=min(room, call.max_tokens or room),
            scenario=call.scenario,
            session=call.session,
        )
        self._commands.put(Submit(job, call.lora))

    def _score(self, call: ScoreCall) -> None:
        if not call.tokens:
            raise BadRequest("There are no tokens to score.", param="tokens")
        if any(not 0 <= token < self._vocabulary.size for token in call.tokens):
            raise BadRequest(f"tokens must be between 0 and {self._vocabulary.size - 1}.", param="tokens")
        self._fits(len(call.tokens))
        self._check(call.lora)
        self._commands.put(Submit(Score(call.id, call.tokens, call.lora.id if call.lora else None, call.priority), call.lora))

    def _fits(self, wanted: int, words: str = "") -> None:
        if wanted > self._context_tokens:
            raise ContextOverflow(
                f"This model's maximum context length is {self._context_tokens} tokens, however you requested {words}{wanted} tokens.",
                "Shorten the conversation, or raise engine.context.",
                param="messages",
            )

    def _render(self, messages: list[JSONObject], tools: list[JSONObject], add_generation_prompt: bool) -> list[int]:
        if not messages:
            raise BadRequest("messages must not be empty.", param="messages")
        tokens: list[int] = []
        pieces = self._template.render(messages, tools, add_generation_prompt=add_generation_prompt)
        # Splitting megabytes that cannot fit would hold up every other request.
        self._fits(sum(len(text) for text, _ in pieces) // self._vocabulary.longest_piece_bytes, "at least ")
        for index, (text, special) in enumerate(pieces):
            begin = index == 0 and not self._template.starts_itself(text)
            tokens += self._vocabulary.tokenize(text, begin=begin, special=special)
        if not tokens:
            raise BadRequest("The conversation renders to an empty prompt.", param="messages")
        return tokens

    def _check(self, lora: LoRAFile | None) -> None:
        """Verify a LoRA once; its id is the hash of its content."""
        if lora is None or (lora.id, lora.path) in self._checked:
            return
        check_lora_file(lora.path, self._header)
        self._checked.add((lora.id, lora.path))
