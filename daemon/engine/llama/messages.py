"""The daemon's side of the worker protocol: requests to messages, answers to events."""

from __future__ import annotations

from daemon.engine.base import CacheStats, Delta, Embedded, Event, Finished, GenerateRequest, LoRA, Progress, Stats
from daemon.engine.llama.protocol import LoRAFile, sampling_to_json
from daemon.records import JSON, JSONObject, TokenTrace, Usage


def generate_message(request: GenerateRequest) -> JSONObject:
    """A `generate` message, without its id."""
    return {
        "type": "generate",
        "messages": list(request.messages),
        "text": request.text,
        "suffix": request.suffix,
        "tools": list(request.tools),
        "tool_choice": request.tool_choice,
        "parallel_tool_calls": request.parallel_tool_calls,
        "response_format": request.response_format,
        "top_logprobs": request.top_logprobs,
        "template_values": request.template_values,
        "sampling": sampling_to_json(request.sampling),
        "max_tokens": request.max_tokens,
        "lora": lora_json(request.lora),
        "priority": int(request.priority),
        "scenario": request.scenario,
        "session": request.session,
    }


def delta_message(call: int, delta: Delta) -> JSONObject:
    """The worker's side of `event_of`: only what is there."""
    message: JSONObject = {"type": "delta", "id": call}
    if delta.text:
        message["text"] = delta.text
    if delta.reasoning:
        message["reasoning"] = delta.reasoning
    if delta.tool_calls:
        message["tool_calls"] = list(delta.tool_calls)
    if delta.logprobs:
        message["logprobs"] = list(delta.logprobs)
    return message


def lora_json(lora: LoRA | None) -> JSONObject | None:
    return LoRAFile.of(lora).model_dump(mode="json") if lora else None


def event_of(answer: JSONObject) -> Event:
    """The event that a `delta`, `progress` or `finished` message means."""
    if answer["type"] == "delta":
        return Delta(
            text=str(answer.get("text", "")),
            reasoning=str(answer.get("reasoning", "")),
            tool_calls=_objects(answer.get("tool_calls")),
            logprobs=_objects(answer.get("logprobs")),
        )
    if answer["type"] == "progress":
        return Progress(whole(answer.get("done")), whole(answer.get("total")))
    prompt, completion = token_ids(answer.get("prompt")), token_ids(answer.get("completion"))
    return Finished(
        str(answer.get("finish_reason")),
        Usage(len(prompt), len(completion), whole(answer.get("cached_tokens")), whole(answer.get("reasoning_tokens"))),
        TokenTrace(tuple(prompt), tuple(completion), tuple(numbers(answer.get("logprobs")))),
        note=str(answer.get("note", "")),
        cache_miss=str(answer.get("cache_miss", "")),
        stop_sequence=str(answer.get("stop_sequence", "")),
    )


def stats_of(message: JSONObject, restarts: int) -> Stats:
    loras = message.get("loras")
    names = tuple(str(name) for name in loras) if isinstance(loras, list) else ()
    return Stats(
        "ready",
        whole(message.get("active")),
        whole(message.get("queued")),
        names,
        restarts,
        cache=_cache(message.get("cache")),
        generated_tokens=whole(message.get("generated")),
    )


def embedded_of(value: JSON) -> Embedded:
    """The result of an `embed` call."""
    answer = value if isinstance(value, dict) else {}
    vectors = answer.get("vectors")
    rows = vectors if isinstance(vectors, list) else []
    return Embedded(tuple(tuple(numbers(row)) for row in rows), whole(answer.get("tokens")))


def whole(value: JSON) -> int:
    return value if isinstance(value, int) else 0


def token_ids(value: JSON) -> list[int]:
    return [item for item in value if isinstance(item, int)] if isinstance(value, list) else []


def pieces_of(value: JSON) -> list[bytes]:
    """The result of a `pieces` call: bytes in hexadecimal."""
    return [bytes.fromhex(item) for item in value if isinstance(item, str)] if isinstance(value, list) else []


def numbers(value: JSON) -> list[float]:
    return [float(item) for item in value if isinstance(item, (int, float))] if isinstance(value, list) else []


def _cache(value: JSON) -> CacheStats:
    if not isinstance(value, dict):
        return CacheStats()
    misses = value.get("misses")
    return CacheStats(
        whole(value.get("read_tokens")),
        whole(value.get("reused_tokens")),
        whole(value.get("held_bytes")),
        whole(value.get("limit_bytes")),
        {name: whole(count) for name, count in misses.items()} if isinstance(misses, dict) else {},
    )


def _objects(value: JSON) -> tuple[JSONObject, ...]:
    return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()
