"""The older OpenAI completions wire, which editors use to complete and to fill in: a plain text, and what comes after it.

There are no messages, so no template, tools or reasoning. Unknown fields are ignored, known ones with a bad value are a 400 that names
them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from daemon.errors import BadRequest, Unsupported
from daemon.gateway.call import Call
from daemon.gateway.steps import Done, Piece
from daemon.gateway.wires.chunks import ChunkForm, usage_object
from daemon.gateway.wires.fields import an_object, bad, boolean, integer, required_text, text
from daemon.gateway.wires.sampling_fields import MAX_TOP_LOGPROBS, parse_choices, parse_max_tokens, parse_sampling
from daemon.records import JSON, JSONObject, Usage

WIRE = "completions"
MAX_REPLIES = 16
"""Prompts times choices."""
_DEFAULT_MAX_TOKENS = 16  # the wire's own
_TEXT_LIMIT = 64 << 20  # the body's; what fits is the engine's to say


def parse(body: JSONObject) -> list[Call]:
    """Validate a completion request: one call a reply, those of a prompt side by side.

    Raises:
        BadRequest: names the field that is wrong.
        Unsupported: log-probabilities of the prompt, token ids as a prompt.
    """
    options = an_object(body, "stream_options") or {}
    prompts, choices = _prompts(body), parse_choices(body)
    if len(prompts) * choices > MAX_REPLIES:
        raise BadRequest(f"'prompt' and 'n' ask for {len(prompts) * choices} replies; at most {MAX_REPLIES} are made.", param="n")
    if body.get("best_of") not in (None, choices):
        raise bad("best_of", f"as many as n, {choices}", body.get("best_of"))
    logprobs = integer(body, "logprobs", 0, MAX_TOP_LOGPROBS)
    if boolean(body, "echo") and logprobs is not None:
        raise Unsupported("The log-probabilities of a prompt cannot be returned.", "Leave out echo or logprobs.", param="logprobs")
    first = Call(
        wire=WIRE,
        model=required_text(body, "model", limit=512),
        messages=(),
        suffix=text(body, "suffix", limit=_TEXT_LIMIT),
        sampling=parse_sampling(body),
        max_tokens=parse_max_tokens(body) or _DEFAULT_MAX_TOKENS,
        top_logprobs=logprobs,
        stream=boolean(body, "stream"),
        include_usage=boolean(options, "include_usage"),
        choices=choices,
        request={name: value for name, value in body.items() if name != "prompt"},
    )
    calls = [replace(first, text=prompt, messages=({"role": "user", "content": prompt},)) for prompt in prompts]
    return [each for call in calls for each in call.each()]


def echoes(body: JSONObject) -> bool:
    """Whether each reply begins with its prompt."""
    return boolean(body, "echo")


def _prompts(body: JSONObject) -> list[str]:
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list) or not prompt:
        raise bad("prompt", "a text or an array of texts", prompt)
    if any(isinstance(entry, int | list) for entry in prompt):
        raise Unsupported("A prompt of token ids cannot be read.", "Send the text.", param="prompt")
    if len(prompt) > MAX_REPLIES:
        raise BadRequest(f"'prompt' holds {len(prompt)} texts; at most {MAX_REPLIES} are taken.", param="prompt")
    found: list[str] = []
    for entry in prompt:
        if not isinstance(entry, str):
            raise bad("prompt", "a text or an array of texts", entry)
        found.append(entry)
    return found


class CompletionReply(ChunkForm):
    """One id and one creation time for all that goes out for one request."""

    def __init__(self, record_id: str, model: str, release_id: str, echoed: Sequence[str], *, include_usage: bool) -> None:
        """`echoed`: what each reply begins with."""
        super().__init__(include_usage=include_usage)
        self._head: JSONObject = {
            "id": f"cmpl-{record_id.rpartition('_')[2]}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": release_id,
        }
        self._echoed = echoed
        self._offsets = [len(prefix) for prefix in echoed]

    def opening_chunk(self, index: int) -> JSONObject | None:
        return self._chunk(index, self._echoed[index]) if self._echoed[index] else None

    def piece_chunk(self, index: int, piece: Piece) -> JSONObject | None:
        given = piece.delta.get("content")
        shown = given if isinstance(given, str) else ""
        if not shown and not piece.logprobs:
            return None
        logprobs, self._offsets[index] = _logprobs(piece.logprobs, self._offsets[index])
        return self._chunk(index, shown, logprobs)

    def closing_chunk(self, index: int, done: Done) -> JSONObject:
        return self._chunk(index, "", None, done.inference.finish_reason)

    def usage_chunk(self, usage: JSONObject) -> JSONObject:
        return {**self._head, "choices": [], "usage": usage}

    def whole(self, choices: Sequence[Done], usage: Usage, reef: JSONObject) -> JSONObject:
        listed: list[JSON] = []
        for index, done in enumerate(choices):
            reply, prefix = done.inference.reply.get("content"), self._echoed[index]
            logprobs, _ = _logprobs(done.logprobs, len(prefix))
            listed.append(
                {
                    "text": prefix + (reply if isinstance(reply, str) else ""),
                    "index": index,
                    "logprobs": logprobs,
                    "finish_reason": done.inference.finish_reason,
                }
            )
        return {**self._head, "choices": listed, "usage": usage_object(usage), "reef": reef}

    def _chunk(self, index: int, shown: str, logprobs: JSON = None, finish_reason: str | None = None) -> JSONObject:
        choice: JSONObject = {"text": shown, "index": index, "logprobs": logprobs, "finish_reason": finish_reason}
        return {**self._head, "choices": [choice]}


def _logprobs(entries: Sequence[JSONObject], offset: int) -> tuple[JSON, int]:
    """This wire's parallel arrays, and where the next token's text begins. The arrays are as long as the tokens are many."""
    if not entries:
        return None, offset
    tokens: list[JSON] = [entry.get("token") for entry in entries]
    values: list[JSON] = [entry.get("logprob") for entry in entries]
    tops: list[JSON] = [_alternatives(entry.get("top_logprobs")) for entry in entries]
    offsets: list[JSON] = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token) if isinstance(token, str) else 0
    return {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}, offset


def _alternatives(entries: JSON) -> JSON:
    if not isinstance(entries, list):
        return {}
    return {str(entry.get("token")): entry.get("logprob") for entry in entries if isinstance(entry, dict)}
