"""What the daemon and the engine worker say to each other: one JSON object a line.

To the worker: `start` (once, first), then `generate`, `score`, `embed`, `tokenize`, `pieces`, `render`, `load_lora`, `unload_lora`,
each with an `id` of the daemon's, and `cancel` with the id of what is to end. From the worker: `ready` or `failed` (once, first), then
for an id `delta`, `progress`, `finished`, `result` or `error`, and `stats` whenever they change.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from daemon import errors
from daemon.engine.base import LoRA, Priority
from daemon.errors import BadRequest, EngineError, ReefError
from daemon.records import JSONObject, Sampling

_KINDS: dict[str, type[ReefError]] = {
    kind.__name__: kind
    for kind in (
        errors.BadRequest,
        errors.ContextOverflow,
        errors.DataError,
        errors.EngineError,
        errors.NotFound,
        errors.Unsupported,
    )
}
_sampling = TypeAdapter(Sampling)


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WorkerSettings(_Message):
    """How the worker loads its model."""

    model: Path
    context_tokens: int
    """Per stream."""
    streams: int
    """Places for live requests; a few more are kept for evaluation and runs."""
    threads: int
    gpu_layers: int
    """-1: all, where the build has a GPU."""
    cache_bytes: int = 0
    """The most that is kept of conversations that have no place now."""


class LoRAFile(_Message):
    id: str
    path: Path

    @classmethod
    def of(cls, lora: LoRA) -> LoRAFile:
        return cls(id=lora.id, path=lora.path)


class GenerateCall(_Message):
    """The fields of `GenerateRequest`."""

    id: int
    messages: list[dict[str, JsonValue]]
    text: str | None = None
    suffix: str | None = None
    tools: list[dict[str, JsonValue]] = []
    tool_choice: JsonValue = "auto"
    parallel_tool_calls: bool = True
    response_format: dict[str, JsonValue] | None = None
    top_logprobs: int | None = None
    template_values: dict[str, JsonValue] = {}
    scenario: str = ""
    session: str = ""
    sampling: dict[str, JsonValue] = {}
    max_tokens: int | None = None
    lora: LoRAFile | None = None
    priority: Priority = Priority.LIVE


class ScoreCall(_Message):
    id: int
    tokens: list[int]
    lora: LoRAFile | None = None
    priority: Priority = Priority.EVALUATION


class TokenizeCall(_Message):
    id: int
    text: str
    special: bool = False


class PiecesCall(_Message):
    id: int
    tokens: list[int]


class RenderCall(_Message):
    id: int
    messages: list[dict[str, JsonValue]]
    tools: list[dict[str, JsonValue]] = []
    add_generation_prompt: bool = True


class EmbedCall(_Message):
    id: int
    texts: list[str]


class LoadCall(_Message):
    id: int
    lora: LoRAFile


class UnloadCall(_Message):
    id: int
    lora_id: str


def sampling_to_json(sampling: Sampling) -> JSONObject:
    return asdict(sampling)


def sampling_from_json(value: JSONObject) -> Sampling:
    try:
        return _sampling.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadRequest(f"{field}: {first['msg']}.", param=field) from error


def error_to_json(call: int, error: ReefError) -> JSONObject:
    message: JSONObject = {
        "type": "error",
        "id": call,
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "param": error.param,
    }
    if isinstance(error, errors.Busy):
        message["retry_after_s"] = error.retry_after_s
    return message


def error_from_json(message: JSONObject) -> ReefError:
    text, hint = str(message.get("message", "")), str(message.get("hint", ""))
    if message.get("kind") == "Busy":
        delay = message.get("retry_after_s", 1)
        return errors.Busy(text, hint, retry_after_s=delay if isinstance(delay, int) else 1)
    kind = _KINDS.get(str(message.get("kind")), EngineError)
    param = message.get("param")
    return kind(text, hint, param=param if isinstance(param, str) else None)
