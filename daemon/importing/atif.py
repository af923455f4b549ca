"""ATIF, Harbor's Agent Trajectory Interchange Format, its versions 1.x: one trajectory of an agent's steps.

Steps that a deterministic dispatcher took (`llm_call_count` 0) and observations of a system are context, no turns. Steps copied from
an earlier trajectory (`is_copied_context`) are context too: they were turns there. Embedded subagents are sessions of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from daemon.errors import DataError
from daemon.importing.conversation import MAX_MESSAGES, ImportedSession, ImportedTurn
from daemon.importing.messages import call, check_message
from daemon.importing.openai_chat import functions, usage_of
from daemon.records import JSON, JSONObject, Message

_VERSION = "ATIF-v1."
_MAX_NESTED = 8


def is_trajectory(value: JSONObject) -> bool:
    return isinstance(value.get("steps"), list) and isinstance(value.get("agent"), dict)


def sessions_of(value: JSONObject, depth: int = 0) -> Iterator[ImportedSession]:
    """The trajectory, then its embedded subagents. Raises `DataError`."""
    version = value.get("schema_version")
    if not isinstance(version, str) or not version.startswith(_VERSION):
        raise DataError(f"The trajectory's version is {str(version)[:40]!r}; versions 1 of ATIF are read.")
    yield _session(value, depth > 0)
    subagents = value.get("subagent_trajectories")
    if isinstance(subagents, list) and depth < _MAX_NESTED:
        for subagent in subagents:
            if isinstance(subagent, dict):
                yield from sessions_of(subagent, depth + 1)


def _session(value: JSONObject, embedded: bool) -> ImportedSession:
    agent, steps = value["agent"], value["steps"]
    if not isinstance(agent, dict) or not isinstance(steps, list) or len(steps) > MAX_MESSAGES:
        raise DataError("The trajectory has no agent, no steps, or too many.")
    turns: list[ImportedTurn] = []
    added: list[Message] = []
    for step in steps:
        if not isinstance(step, dict):
            raise DataError("A step is not an object.")
        message = _message(step)
        if message["role"] == "assistant" and step.get("llm_call_count") != 0 and step.get("is_copied_context") is not True:
            parent = len(turns) - 1 if turns else None
            turns.append(_turn(step, tuple(added), message, parent, agent))
            added = []
        else:
            added.append(message)
        added += _observed(step)
    if not turns:
        raise DataError("The trajectory holds no step of an agent.")
    name = agent.get("name")
    tags = {"agent": name[:80]} if isinstance(name, str) and name else {}
    tools = functions({"tools": agent.get("tool_definitions")})
    return ImportedSession(tuple(turns), _id(value, embedded), tools, tags)


def _id(value: JSONObject, embedded: bool) -> str:
    """The run's id. Trajectories of one run that lie beside each other are branches of it; an embedded one is a conversation of its own."""
    session, trajectory = value.get("session_id"), value.get("trajectory_id")
    if not isinstance(session, str) or not session:
        return ""
    if not embedded:
        return session[:200]
    return f"{session[:100]}/{trajectory[:90]}" if isinstance(trajectory, str) and trajectory else ""


def _turn(step: JSONObject, added: tuple[Message, ...], reply: Message, parent: int | None, agent: JSONObject) -> ImportedTurn:
    model = step.get("model_name") or agent.get("model_name")
    return ImportedTurn(
        added,
        reply,
        parent,
        created_at=_time(step.get("timestamp")),
        model=model if isinstance(model, str) else "",
        finish_reason="tool_calls" if reply.get("tool_calls") else "stop",
        usage=usage_of(step.get("metrics")),
    )


def _message(step: JSONObject) -> Message:
    role = {"system": "system", "user": "user", "agent": "assistant"}.get(str(step.get("source")))
    if role is None:
        raise DataError(f"A step's source is {str(step.get('source'))[:40]!r}.")
    message: JSONObject = {"role": role, "content": _content(step.get("message"))}
    if role == "assistant":
        message["reasoning_content"] = step.get("reasoning_content")
        calls = step.get("tool_calls")
        if isinstance(calls, list) and calls:
            message["tool_calls"] = [_call(one) for one in calls]
            message["content"] = message["content"] or None  # this form has a text always
    return check_message(message)


def _call(value: JSON) -> JSON:
    name, call_id = (value.get("function_name"), value.get("tool_call_id")) if isinstance(value, dict) else (None, None)
    if not isinstance(value, dict) or not isinstance(name, str) or not isinstance(call_id, str):
        raise DataError("A tool call has no function_name or no tool_call_id.")
    return call(name, value.get("arguments"), call_id)


def _observed(step: JSONObject) -> Iterator[Message]:
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else None
    for result in results if isinstance(results, list) else []:
        if not isinstance(result, dict):
            continue
        content = _content(result.get("content"))
        call_id = result.get("source_call_id")
        if isinstance(call_id, str) and step.get("source") == "agent":
            yield check_message({"role": "tool", "tool_call_id": call_id, "content": content if content is not None else ""})
        elif content:
            yield check_message({"role": "user" if step.get("source") == "agent" else "system", "content": content})


def _content(value: JSON) -> JSON:
    """Text, or parts. A picture or sound that lies in a file beside the trajectory is not read: its name stays."""
    if not isinstance(value, list):
        return value
    parts: list[JSON] = []
    for part in value:
        if not isinstance(part, dict):
            raise DataError("A part of a message is not an object.")
        source = part.get("source")
        kind = part.get("type")
        if kind in ("image", "audio") and isinstance(source, dict):
            path = str(source.get("path"))
            shown = kind == "image" and path.startswith(("data:", "https:", "http:"))
            parts.append({"type": "image_url", "image_url": {"url": path}} if shown else {"type": "text", "text": f"[{kind} {path[:200]}]"})
        else:
            parts.append({"type": "text", "text": part.get("text") if isinstance(part.get("text"), str) else ""})
    return parts


def _time(value: JSON) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
