"""The worker's front desk: reads the daemon's messages, prepares requests, and hands the main thread what is to be computed.

Reading and preparing have threads of their own: a long prompt being split, or a LoRA being verified, holds up no running stream,
no other request, and not the word that a client has hung up.
"""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import PriorityQueue, SimpleQueue
from typing import TypeAlias

from pydantic import ValidationError

from daemon.child_main import send
from daemon.engine.base import Priority
from daemon.engine.llama.chat.prompts import STACK_BYTES, Prompt, Prompts
from daemon.engine.llama.formats.base import Parser
from daemon.engine.llama.formats.plain import PlainParser
from daemon.engine.llama.lora_file import check_lora_file
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.protocol import (
    EmbedCall,
    GenerateCall,
    LoadCall,
    LoRAFile,
    PiecesCall,
    RenderCall,
    ScoreCall,
    TokenizeCall,
    UnloadCall,
    error_to_json,
    sampling_from_json,
)
from daemon.engine.llama.reply import ReplyText
from daemon.engine.llama.sampling import Sampler, check_sampling
from daemon.engine.llama.sequence import POOLING, Embedding, Job, Score, Sequence
from daemon.engine.llama.structure.structure import Structures
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.errors import BadRequest, EngineError, ReefError, Unsupported
from daemon.gguf import GGUFHeader
from daemon.records import JSONObject


@dataclass(frozen=True, slots=True)
class Submit:
    """Its LoRA is loaded, and counted as used by it."""

    job: Job


@dataclass(frozen=True, slots=True)
class Cancel:
    id: int


@dataclass(frozen=True, slots=True)
class Load:
    """It is loaded, and counted as used by this."""

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


_CHAT_THREADS = 2
_OTHER_THREADS = 1
_LORA_THREADS = 1
_CHATS = ("generate", "render")  # go through the chat template, but for texts
_LORAS = ("load_lora", "unload_lora")


@dataclass(order=True, slots=True)
class _Waiting:
    """A message to be prepared: live requests first, then in the order that they came."""

    priority: int
    number: int  # of all messages
    message: JSONObject = field(compare=False)


class Intake:
    """Turns messages into commands; answers itself what needs no computing."""

    def __init__(
        self,
        header: GGUFHeader,
        vocabulary: Vocabulary,
        prompts: Prompts,
        structures: Structures,
        loras: LoadedLoRAs,
        commands: SimpleQueue[Command],
        context_tokens: int,
    ) -> None:
        self._header = header
        self._vocabulary = vocabulary
        self._prompts = prompts
        self._structures = structures
        self._loras = loras
        self._commands = commands
        self._context_tokens = context_tokens
        self._checked: set[tuple[str, Path]] = set()
        self._chats: PriorityQueue[_Waiting] = PriorityQueue()
        self._others: PriorityQueue[_Waiting] = PriorityQueue()  # no slow template holds up these
        self._lora_files: PriorityQueue[_Waiting] = PriorityQueue()  # holds up nobody while one is read
        self._open: dict[int, bool] = {}  # calls that are prepared or wait for it; whether they were cancelled
        self._lock = threading.Lock()

    def run(self, messages: Iterator[JSONObject]) -> None:
        """Until there are no more. Whatever goes wrong with a message ends its call with an error, and touches no other call."""
        size = threading.stack_size(STACK_BYTES)
        for queue, threads in ((self._chats, _CHAT_THREADS), (self._others, _OTHER_THREADS), (self._lora_files, _LORA_THREADS)):
            for _ in range(threads):
                threading.Thread(target=self._prepare_all, args=(queue,), name="prepare", daemon=True).start()
        threading.stack_size(size)
        for count, message in enumerate(messages):
            call = message.get("id")
            number = call if isinstance(call, int) else -1
            if message.get("type") == "cancel":
                self._cancel(number)
                continue
            with self._lock:
                self._open[number] = False
            priority = message.get("priority")
            is_chat = message.get("type") in _CHATS and message.get("text") is None
            queue = self._lora_files if message.get("type") in _LORAS else self._chats if is_chat else self._others
            queue.put(_Waiting(priority if isinstance(priority, int) else int(Priority.LIVE), count, message))
        self._commands.put(Stop())

    def _cancel(self, number: int) -> None:
        with self._lock:
            if number in self._open:
                self._open[number] = True
                return
        self._commands.put(Cancel(number))

    def _prepare_all(self, queue: PriorityQueue[_Waiting]) -> None:
        while True:
            message = queue.get().message
            call = message.get("id")
            number = call if isinstance(call, int) else -1
            with self._lock:
                cancelled = self._open.get(number, False)
            if not cancelled:
                self._prepare(message, number)
            with self._lock:
                cancelled = self._open.pop(number, False)
            if cancelled:
                self._commands.put(Cancel(number))

    def _prepare(self, message: JSONObject, number: int) -> None:
        try:
            self._handle(str(message.get("type")), {key: value for key, value in message.items() if key != "type"}, number)
        except ReefError as error:
            send(error_to_json(number, error))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            send(error_to_json(number, BadRequest(f"{name}: {first['msg']}.", param=name)))
        except Exception:  # noqa: BLE001 - the top of these threads, which must go on
            traceback.print_exc()
            send(error_to_json(number, EngineError("The engine could not prepare this request.", "Its log, engine.log, says why.")))

    def _handle(self, kind: str, body: JSONObject, number: int) -> None:
        if kind == "generate":
            self._generate(GenerateCall.model_validate(body))
        elif kind == "score":
            self._score(ScoreCall.model_validate(body))
        elif kind == "embed":
            self._embed(EmbedCall.model_validate(body))
        elif kind == "tokenize":
            text = TokenizeCall.model_validate(body)
            send({"type": "result", "id": number, "value": list(self._prompts.tokens_of(text.text, special=text.special))})
        elif kind == "pieces":
            tokens, size = PiecesCall.model_validate(body).tokens, self._vocabulary.size
            if not all(0 <= token < size for token in tokens):
                raise BadRequest(f"A token id is not between 0 and {size - 1}.", param="tokens")
            spelled = [self._vocabulary.piece(token, special=True).hex() for token in tokens]
            send({"type": "result", "id": number, "value": list(spelled)})
        elif kind == "render":
            call = RenderCall.model_validate(body)
            prompt = self._prompts.of_conversation(call.messages, call.tools, add_generation_prompt=call.add_generation_prompt)
            send({"type": "result", "id": number, "value": list(prompt.tokens)})
        elif kind == "load_lora":
            load = LoadCall.model_validate(body)
            self._acquire(load.lora)
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
        prompt = self._prompt(call)
        self._prompts.fits(len(prompt.tokens) + 1, param="messages" if call.text is None else "prompt")
        room = self._context_tokens - len(prompt.tokens)
        constraint = self._structures.constraint(call, prompt.format, prompt.end)
        sampler = Sampler(sampling, prompt.tokens, constraint=constraint, top_logprobs=call.top_logprobs, pieces=self._vocabulary)
        job = Sequence(
            call.id,
            prompt.tokens,
            call.lora.id if call.lora else None,
            call.priority,
            sampler=sampler,
            reply=ReplyText(sampling.stop, _parser(call, prompt)),
            max_tokens=min(room, call.max_tokens or room),
            scenario=call.scenario,
            session=call.session,
            markers=self._vocabulary.markers(prompt.format.markers) if call.text is None else {},
            template=json.dumps(call.template_values, sort_keys=True),
        )
        self._acquire(call.lora)
        self._commands.put(Submit(job))

    def _prompt(self, call: GenerateCall) -> Prompt:
        if call.text is not None:
            return self._prompts.of_text(call.text, call.suffix)
        if call.suffix is not None:
            raise BadRequest("suffix goes with a text, not with messages.", param="suffix")
        return self._prompts.of_conversation(call.messages, call.tools, call.template_values, call.session)

    def _score(self, call: ScoreCall) -> None:
        if not call.tokens:
            raise BadRequest("There are no tokens to score.", param="tokens")
        if any(not 0 <= token < self._vocabulary.size for token in call.tokens):
            raise BadRequest(f"tokens must be between 0 and {self._vocabulary.size - 1}.", param="tokens")
        self._prompts.fits(len(call.tokens))
        self._acquire(call.lora)
        self._commands.put(Submit(Score(call.id, call.tokens, call.lora.id if call.lora else None, call.priority)))

    def _embed(self, call: EmbedCall) -> None:
        pooling = POOLING.get(self._header.integer(f"{self._header.architecture}.pooling_type"))
        if pooling is None:
            raise Unsupported("This model cannot make embeddings.", "Serve a model that pools, or name another server as the engine.")
        texts = [self._prompts.of_text(text, param="input").tokens for text in call.texts]
        if not texts:
            raise BadRequest("There is no text to make a vector of.", param="input")
        self._prompts.fits(max(map(len, texts)), param="input")
        self._commands.put(Submit(Embedding(call.id, texts, pooling)))

    def _acquire(self, lora: LoRAFile | None) -> None:
        """Verify a LoRA once, as its id is the hash of its content; have it loaded, and count the use. The last step before `put`."""
        if lora is None:
            return
        if (lora.id, lora.path) not in self._checked:
            check_lora_file(lora.path, self._header)
            self._checked.add((lora.id, lora.path))
        self._loras.acquire(lora.id, lora.path)


def _parser(call: GenerateCall, prompt: Prompt) -> Parser:
    """A text that goes on is all text. With tool_choice "none" the tools are in the prompt, which begins as before, but none is called."""
    if call.text is not None:
        return PlainParser()
    tools = () if call.tool_choice == "none" else tuple(call.tools)
    return prompt.format.parser(tools, prompt.end)
