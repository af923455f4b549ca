"""A streamed reply of an OpenAI-compatible server, chat or plain completion, as events."""

from __future__ import annotations

from daemon.engine.base import Delta, Event, Finished
from daemon.engine.upstream.errors import stream_error
from daemon.engine.upstream.json_reading import read_value
from daemon.engine.upstream.reader import ReplyReader
from daemon.errors import EngineError
from daemon.records import JSON, JSONObject, Usage

DONE = "[DONE]"
_MAX_CHOICES = 128
_IMPOSSIBLE = 9999.0  # what servers write for a log-probability of minus infinity


class ChatReader(ReplyReader):
    """One reply, taken in chunk by chunk; of several choices, where the request asked for them."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}  # choice → why it ended
        self._seen = 0  # choices
        self._usage = Usage(0, 0)
        self._pieces = 0
        self._closing = False
        self._stop_sequence = ""

    @property
    def closing(self) -> bool:
        return self._closing

    def take(self, data: str) -> list[Event]:
        self._closing = True
        if data == DONE:
            return []
        chunk = read_value(data)
        if not isinstance(chunk, dict):
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
        if chunk.get("error") is not None:
            raise stream_error(chunk["error"])
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        listed = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
        # Without choices it is such as usage alone, which comes last.
        self._closing = all([isinstance(choice.get("finish_reason"), str) for choice in listed])
        found: list[Event] = []
        for choice in listed:
            event = self._take_choice(choice)
            if event.text or event.reasoning or event.tool_calls or event.logprobs:
                self._pieces += 1
                found.append(event)
        return found

    def take_whole(self, body: JSONObject) -> list[Event]:
        choices = body.get("choices")
        listed = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
        if not listed:
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
        self._take_usage(body.get("usage"))
        return [self._take_choice(_as_streamed(choice)) for choice in listed]

    def finished(self) -> Finished:
        if not self._reasons.get(0):
            raise EngineError("The upstream broke off in the middle of its reply.", "Send the request again.")
        usage = self._usage if self._usage.completion_tokens else Usage(self._usage.prompt_tokens, self._pieces)
        further = tuple(self._reasons.get(place, "") for place in range(1, self._seen))
        return Finished(self._reasons[0], usage, stop_sequence=self._stop_sequence, further=further)

    def _take_choice(self, choice: JSONObject) -> Delta:
        index = choice.get("index")
        place = index if isinstance(index, int) and 0 <= index < _MAX_CHOICES else 0
        self._seen = max(self._seen, place + 1)
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._reasons[place] = reason
        if place == 0:
            self._take_stop(choice)
        return _delta(choice, place)

    def _take_stop(self, choice: JSONObject) -> None:
        """Some servers say which stop text ended the reply; others have the token's number there."""
        stop = choice.get("stop_reason")
        if isinstance(stop, str):
            self._stop_sequence = stop

    def _take_usage(self, usage: JSON) -> None:
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            details = usage.get("completion_tokens_details")
            reasoning = details.get("reasoning_tokens") if isinstance(details, dict) else 0
            self._usage = Usage(whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens")), whole(cached), whole(reasoning))


def _as_streamed(choice: JSONObject) -> JSONObject:
    """A whole choice as one that came in a single chunk, where calls are numbered."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message = {**message, "tool_calls": [{**call, "index": place} for place, call in enumerate(calls) if isinstance(call, dict)]}
    return {**choice, "delta": message}


def whole(value: JSON) -> int:
    """A count; whatever is none is 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _delta(choice: JSONObject, place: int) -> Delta:
    logprobs = choice.get("logprobs")
    shown = logprobs_of(logprobs) if isinstance(logprobs, dict) else ()
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        text = choice.get("text")  # a plain completion's
        return Delta(text=text if isinstance(text, str) else "", logprobs=shown, choice=place)
    content, calls = delta.get("content"), delta.get("tool_calls")
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")
    return Delta(
        text=content if isinstance(content, str) else "",
        reasoning=reasoning if isinstance(reasoning, str) else "",
        tool_calls=tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
        logprobs=shown,
        choice=place,
    )


def logprobs_of(logprobs: JSONObject) -> tuple[JSONObject, ...]:
    """The chat wire's entries; those of the older completions wire (parallel arrays) are turned into them."""
    content = logprobs.get("content")
    if isinstance(content, list):
        return tuple(_checked(entry) for entry in content if isinstance(entry, dict))
    tokens, values, tops = logprobs.get("tokens"), logprobs.get("token_logprobs"), logprobs.get("top_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list):
        return ()
    others = tops if isinstance(tops, list) else []
    found: list[JSONObject] = []
    for index, (token, value) in enumerate(zip(tokens, values, strict=False)):
        alternatives = others[index] if index < len(others) else None
        shown: list[JSON] = [_entry(name, each) for name, each in alternatives.items()] if isinstance(alternatives, dict) else []
        found.append({**_entry(token, value), "top_logprobs": shown})
    return tuple(found)


def _checked(entry: JSONObject) -> JSONObject:
    tops = entry.get("top_logprobs")
    shown: list[JSON] = [
        _entry(top.get("token"), top.get("logprob")) for top in (tops if isinstance(tops, list) else []) if isinstance(top, dict)
    ]
    return {**_entry(entry.get("token"), entry.get("logprob"), entry.get("bytes")), "top_logprobs": shown}


def _entry(token: JSON, logprob: JSON, given: JSON = None) -> JSONObject:
    """`bytes` may say what the token's text cannot: half a character. What is no finite number is as good as impossible."""
    text = token if isinstance(token, str) else ""
    value = min(0.0, logprob) if isinstance(logprob, int | float) and logprob > -_IMPOSSIBLE else -_IMPOSSIBLE
    own: list[JSON] = list(text.encode("utf-8", "surrogatepass"))
    known = given if isinstance(given, list) and all(isinstance(each, int) and 0 <= each < 256 for each in given) else own
    return {"token": text, "logprob": value, "bytes": known}
