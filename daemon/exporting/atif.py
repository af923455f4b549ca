"""ATIF v1.7, Harbor's Agent Trajectory Interchange Format: one trajectory for each line of a conversation.

Results of tools are observations of the step that called them. What only Reef knows of a step (receipt, release, score) is in
`extra.reef`. Token ids stay here: they would spell what is redacted from the text on the way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from daemon import __version__, json_text
from daemon.exporting.conversation import Conversation, Dialogue, Exchange, Format
from daemon.importing.messages import text_of
from daemon.records import JSON, JSONObject, Message
from daemon.tool_forms import chat_tools

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class ATIFFormat(Format):
    name = "atif"

    def lines(self, conversation: Conversation, good_only: bool) -> Iterator[JSONObject]:
        for number, dialogue in enumerate(conversation.dialogues(good_only)):
            yield _trajectory(dialogue, f"{conversation.session}:{number}")


def _trajectory(dialogue: Dialogue, trajectory_id: str) -> JSONObject:
    last = dialogue.turn.inference
    agent: JSONObject = {"name": last.tags.get("agent") or last.tags.get("client") or "reef", "version": __version__}
    if last.model:
        agent["model_name"] = last.model
    if tools := chat_tools(last.request):
        agent["tool_definitions"] = list(tools)
    replies = dialogue.replies
    steps: list[JSON] = list(_steps([*dialogue.prompt, dialogue.reply], replies))
    usages = [turn.inference.usage for turn in replies.values()]
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": dialogue.conversation.session,
        "trajectory_id": trajectory_id,
        "agent": agent,
        "steps": steps,
        "final_metrics": {
            "total_prompt_tokens": sum(usage.prompt_tokens for usage in usages),
            "total_completion_tokens": sum(usage.completion_tokens for usage in usages),
            "total_cached_tokens": sum(usage.cached_tokens for usage in usages),
            "total_steps": len(steps),
        },
        "extra": {"reef": {"scenario": dialogue.conversation.scenario}},
    }


def _steps(messages: list[Message], replies: dict[int, Exchange]) -> Iterator[JSONObject]:
    step: JSONObject | None = None
    count = 0
    for place, message in enumerate(messages):
        if message.get("role") == "tool" and step is not None and step["source"] == "agent":
            _observe(step, message)
            continue
        if step is not None:
            yield step
        count += 1
        step = _step(message, count, replies.get(place))
    if step is not None:
        yield step


def _step(message: Message, number: int, turn: Exchange | None) -> JSONObject:
    role = message.get("role")
    source = "agent" if role == "assistant" else "system" if role in ("system", "developer") else "user"
    step: JSONObject = {"step_id": number, "source": source, "message": _content(message.get("content"))}
    if source != "agent":
        return step
    if message.get("reasoning_content"):
        step["reasoning_content"] = message["reasoning_content"]
    calls = message.get("tool_calls")
    made: list[JSON] = [_call(call, place) for place, call in enumerate(calls)] if isinstance(calls, list) else []
    if made:
        step["tool_calls"] = made
    if turn is not None:
        step |= _facts(turn)
    return step


def _facts(turn: Exchange) -> JSONObject:
    item = turn.inference
    reef: JSONObject = {"receipt": item.id, "release_id": item.release_id}
    if turn.score is not None:
        reef["score"] = turn.score
    facts: JSONObject = {
        "timestamp": datetime.fromtimestamp(max(0.0, item.created_at), UTC).isoformat(),
        "llm_call_count": 1,
        "metrics": {
            "prompt_tokens": item.usage.prompt_tokens,
            "completion_tokens": item.usage.completion_tokens,
            "cached_tokens": item.usage.cached_tokens,
        },
        "extra": {"reef": reef},
    }
    return {"model_name": item.model, **facts} if item.model else facts


def _observe(step: JSONObject, message: Message) -> None:
    observation = step.setdefault("observation", {"results": []})
    calls, call_id = step.get("tool_calls"), message.get("tool_call_id")
    made = [call.get("tool_call_id") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    result: JSONObject = {"content": _content(message.get("content"))}
    if call_id in made:
        result["source_call_id"] = call_id
    if isinstance(observation, dict) and isinstance(results := observation["results"], list):
        results.append(result)


def _call(call: JSON, place: int) -> JSONObject:
    function = call.get("function") if isinstance(call, dict) else None
    named = function if isinstance(function, dict) else {}
    given = call.get("id") if isinstance(call, dict) else None
    return {
        "tool_call_id": given or f"call_{place}",
        "function_name": str(named.get("name")),
        "arguments": _arguments(named.get("arguments")),
    }


def _arguments(value: JSON) -> JSONObject:
    """An object, as the format demands: what is none goes under `input`."""
    if isinstance(value, str):
        try:
            value = json_text.parse(value)
        except ValueError:
            return {"input": value}
    return value if isinstance(value, dict) else {"input": value}


def _content(content: JSON) -> JSON:
    """Text; parts only where an image is among them."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [_part(part) for part in content if isinstance(part, dict)]
    return parts if any(isinstance(part, dict) and part["type"] == "image" for part in parts) else text_of(content)


def _part(part: JSONObject) -> JSON:
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    if isinstance(url, str):
        kind = next((kind for kind in _IMAGES if url.startswith(f"data:{kind}")), "image/png")
        return {"type": "image", "source": {"media_type": kind, "path": url}}
    text = part.get("text")
    return {"type": "text", "text": text if isinstance(text, str) else f"[{part.get('type')}]"}
