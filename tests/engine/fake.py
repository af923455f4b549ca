"""A deterministic engine in this process, without a model. It passes the same contract suite as the real ones.

Token ids are UTF-8 bytes; `<|im_start|>` and `<|im_end|>` are 256 and 257. The reply to a conversation is the first of `replies`
whose key occurs in the last user message, else `echo: ` and that message. A LoRA changes the reply visibly: its own `lora_replies` first,
else `[lora IDIDIDID] ` before what the base would have said. A LoRA file is any file that begins with the bytes `GGUF`. A plain text is
answered like a message of that text. What must have a form and is not scripted is a small example of that form.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.engine.base import (
    CacheStats,
    Capability,
    Delta,
    Embedded,
    Engine,
    Event,
    Finished,
    GenerateRequest,
    LoRA,
    ModelInfo,
    Priority,
    Stats,
)
from daemon.errors import BadRequest, Busy, ContextOverflow, DataError, ReefError, Unsupported
from daemon.records import JSON, JSONObject, Message, TokenTrace, Usage
from tests.engine.examples import example, example_call, forced, schema_of

START, END = 256, 257
ALL = ~Capability.NONE
WIDTH = 8  # of a vector


@dataclass(frozen=True, slots=True)
class Reply:
    """A scripted reply that is more than text."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[JSONObject, ...] = ()
    note: str = ""
    cache_miss: str = ""


def content_text(message: Message) -> str:
    """The text of a message whose content is a string, parts or null."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def encode(text: str, *, special: bool = False) -> list[int]:
    if not special:
        return list(text.encode(errors="replace"))
    tokens: list[int] = []
    for index, piece in enumerate(text.split("<|im_start|>")):
        if index:
            tokens.append(START)
        for inner, part in enumerate(piece.split("<|im_end|>")):
            if inner:
                tokens.append(END)
            tokens.extend(part.encode(errors="replace"))
    return tokens


def render(messages: tuple[Message, ...], tools: tuple[JSONObject, ...], add_generation_prompt: bool) -> list[int]:
    tokens: list[int] = []
    if tools:
        tokens += [START, *encode(f"tools\n{json.dumps(tools)}"), END, 10]
    for message in messages:
        tokens += [START, *encode(f"{message.get('role')}\n{content_text(message)}"), END, 10]
    return [*tokens, START, *encode("assistant\n")] if add_generation_prompt else tokens


class ScriptedEngine(Engine):
    """See the module. Change its fields at any time; `requests` lists what was asked."""

    def __init__(
        self,
        replies: Mapping[str, str | Reply] | None = None,
        *,
        lora_replies: Mapping[str, Mapping[str, str | Reply]] | None = None,
        capabilities: Capability = ALL,
        context_tokens: int = 65536,
        model_path: Path | None = None,
        streams: int = 64,
        token_delay_s: float = 0.0,
    ) -> None:
        self.replies: dict[str, str | Reply] = dict(replies or {})
        self.lora_replies: dict[str, dict[str, str | Reply]] = {key: dict(value) for key, value in (lora_replies or {}).items()}
        self.token_delay_s = token_delay_s  # before each piece of about eight characters
        self.fail_next: ReefError | None = None  # raised by the next call of generate, at admission
        self.fail_after: tuple[int, ReefError] | None = None  # raised by the next generate after that many deltas
        self.requests: list[GenerateRequest] = []
        self.loaded: dict[str, LoRA] = {}
        self.cache = CacheStats()  # what `stats` says of it
        self.cancelled = 0
        self.running = 0
        self._streams = streams
        self._capabilities = capabilities
        self._state = "starting"
        self._seen: dict[str | None, list[int]] = {}
        self._model = ModelInfo(
            id="scripted",
            context_tokens=context_tokens,
            path=model_path,
            sha256="5c" * 32,
            quantisation="F32",
            architecture="scripted",
            template_sha256="7e" * 32,
            size_bytes=1,
            parameters=1,
        )

    @property
    def capabilities(self) -> Capability:
        return self._capabilities

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def stats(self) -> Stats:
        return Stats(state=self._state, active=self.running, loras=tuple(self.loaded), cache=self.cache)

    async def start(self) -> None:
        self._state = "ready"

    async def stop(self) -> None:
        self._state = "stopped"

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        return self._generate(request)

    async def _generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        failure, self.fail_next = self.fail_next, None
        broken, self.fail_after = self.fail_after, None
        if failure is not None:
            raise failure
        if self.running >= self._streams:
            raise Busy("Too many requests are waiting.", "Try again in a moment.")
        if request.max_tokens is not None and request.max_tokens < 1:
            raise BadRequest("max_tokens must be at least 1.", param="max_tokens")
        if request.top_logprobs is not None:
            self._need(Capability.LOGPROBS, "logprobs")
        if request.response_format is not None:
            self._need(Capability.STRUCTURE, "response_format")
        if forced(request.tool_choice):
            self._need(Capability.STRUCTURE, "tool_choice")
        if request.suffix is not None:
            self._need(Capability.FILL_IN_MIDDLE, "suffix")
        if request.lora is not None:
            await self.load_lora(request.lora)
        prompt = render(request.messages, request.tools, True) if request.text is None else encode(request.text + (request.suffix or ""))
        wanted = len(prompt) + 1
        if wanted > self._model.context_tokens:
            raise ContextOverflow(f"maximum context length is {self._model.context_tokens} tokens, however you requested {wanted} tokens")
        self.running += 1
        finished = False
        try:
            async for event in self._reply(request, prompt, broken):
                finished = isinstance(event, Finished)
                yield event
        finally:
            self.running -= 1
            if not finished:
                self.cancelled += 1

    async def _reply(
        self, request: GenerateRequest, prompt: list[int], broken: tuple[int, ReefError] | None
    ) -> AsyncGenerator[Event, None]:
        lora_id = request.lora.id if request.lora else None
        reply = self._script(request, lora_id)
        text, reason = reply.text, "tool_calls" if reply.tool_calls else "stop"
        _, stopped = min(((at, stop) for stop in request.sampling.stop if (at := text.find(stop)) >= 0), default=(0, ""))
        if stopped:
            text = text.split(stopped, 1)[0]
        room = self._model.context_tokens - len(prompt)
        limit = min(room, request.max_tokens or room)
        completion = [*text.encode(errors="replace"), END]
        if len(completion) > limit:
            completion, reason = completion[:limit], "length"
            text = bytes(completion).decode(errors="ignore")
        if reply.reasoning:
            yield Delta(reasoning=reply.reasoning)
        pieces = [text[start : start + 8] for start in range(0, len(text), 8)]
        for index, piece in enumerate(pieces):
            if broken is not None and index == broken[0]:
                raise broken[1]
            await asyncio.sleep(self.token_delay_s)
            yield Delta(text=piece, logprobs=self._shown(piece, request.top_logprobs, lora_id))
        if broken is not None and broken[0] >= len(pieces):
            raise broken[1]
        if reply.tool_calls:
            yield Delta(tool_calls=tuple({"index": index, **call} for index, call in enumerate(reply.tool_calls)))
        cached = self._common(lora_id, prompt)
        self._seen[lora_id] = prompt + completion
        has_ids = Capability.TOKEN_IDS in self._capabilities
        logprobs = tuple(_logprob(token, lora_id) for token in completion)
        trace = TokenTrace(tuple(prompt), tuple(completion), logprobs) if has_ids else None
        usage = Usage(len(prompt), len(completion), cached)
        yield Finished(reason, usage, trace, note=reply.note, cache_miss=reply.cache_miss, stop_sequence=stopped)

    def _shown(self, piece: str, alternatives: int | None, lora_id: str | None) -> tuple[JSONObject, ...]:
        """A token is a byte; its only alternative is the next one."""
        if alternatives is None:
            return ()
        found: list[JSONObject] = []
        for token in piece.encode(errors="replace"):
            tops: list[JSON] = [_entry(other, lora_id) for other in (token, (token + 1) % 256)[:alternatives]]
            found.append({**_entry(token, lora_id), "top_logprobs": tops})
        return tuple(found)

    def _script(self, request: GenerateRequest, lora_id: str | None) -> Reply:
        asked = request.text
        if asked is None:
            asked = next((content_text(m) for m in reversed(request.messages) if m.get("role") == "user"), "")
        own = self.lora_replies.get(lora_id or "", {})
        for key, reply in own.items():
            if key in asked:
                return reply if isinstance(reply, Reply) else Reply(reply)
        found = next((reply for key, reply in self.replies.items() if key in asked), None)
        if found is None and forced(request.tool_choice):
            found = Reply(tool_calls=(example_call(request.tools, request.tool_choice),))
        elif found is None and request.response_format is not None:
            found = json.dumps(example(schema_of(request.response_format)))
        elif found is None:
            found = f"echo: {asked}"
        base = found if isinstance(found, Reply) else Reply(found)
        if request.tool_choice == "none":
            base = replace(base, tool_calls=())
        if lora_id is None or own:
            return base
        return replace(base, text=f"[lora {lora_id[:8]}] {base.text}")

    def _common(self, lora_id: str | None, prompt: list[int]) -> int:
        """Tokens reused from the last prompt of the same LoRA; the last token of a prompt is always computed."""
        count = 0
        for old, new in zip(self._seen.get(lora_id, []), prompt[:-1], strict=False):
            if old != new:
                break
            count += 1
        return count

    async def load_lora(self, lora: LoRA) -> None:
        self._need(Capability.LORA)
        try:
            with lora.path.open("rb") as stream:
                magic = stream.read(4)
        except OSError as error:
            raise DataError(f"The LoRA {lora.path} cannot be read.") from error
        if magic != b"GGUF":
            raise DataError(f"{lora.path} is no GGUF file.", "Convert it first.")
        self.loaded[lora.id] = lora

    async def unload_lora(self, lora_id: str) -> None:
        self._need(Capability.LORA)
        self.loaded.pop(lora_id, None)

    async def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        self._need(Capability.TOKEN_IDS)
        return encode(text, special=special)

    async def pieces(self, tokens: list[int]) -> list[bytes]:
        self._need(Capability.TOKEN_IDS)
        return [b"<|im_start|>" if token == START else b"<|im_end|>" if token == END else bytes([token]) for token in tokens]

    async def render(
        self, messages: tuple[Message, ...], tools: tuple[JSONObject, ...] = (), *, add_generation_prompt: bool = True
    ) -> list[int]:
        self._need(Capability.TOKEN_IDS)
        return render(messages, tools, add_generation_prompt)

    async def embed(self, texts: tuple[str, ...]) -> Embedded:
        self._need(Capability.EMBEDDINGS)
        vectors = []
        for text in texts:
            sums = [1.0 + sum(token for place, token in enumerate(encode(text)) if place % WIDTH == column) for column in range(WIDTH)]
            vectors.append(tuple(each / math.hypot(*sums) for each in sums))
        return Embedded(tuple(vectors), sum(len(encode(text)) for text in texts))

    async def score(self, tokens: list[int], lora: LoRA | None = None, *, priority: Priority = Priority.EVALUATION) -> list[float]:
        self._need(Capability.SCORE)
        if lora is not None:
            await self.load_lora(lora)
        return [_logprob(token, lora.id if lora else None) for token in tokens[1:]]

    def _need(self, capability: Capability, param: str | None = None) -> None:
        if capability not in self._capabilities:
            raise Unsupported(f"This engine cannot do this: {capability.names()[0]}.", param=param)


def _logprob(token: int, lora_id: str | None) -> float:
    """Some negative number that depends on the token and on the LoRA."""
    return -0.1 * (1 + token % 7) - (0.05 if lora_id else 0.0)


def _entry(token: int, lora_id: str | None) -> JSONObject:
    return {"token": bytes([token]).decode(errors="replace"), "logprob": _logprob(token, lora_id), "bytes": [token]}
