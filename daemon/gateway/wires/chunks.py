"""What the two OpenAI wires that stream chunks share: unnamed events, the receipt on the last chunk, `[DONE]` at the end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from daemon.errors import ReefError
from daemon.gateway.errors import Shape, error_object
from daemon.gateway.sse import DONE, data_frame
from daemon.gateway.steps import Done, Piece
from daemon.gateway.wires.form import ReplyForm
from daemon.records import JSONObject, Usage


class ChunkForm(ReplyForm):
    """A subclass gives the chunks."""

    def __init__(self, *, include_usage: bool) -> None:
        """`include_usage`: the client has asked for a last chunk without choices; others may not expect one."""
        self._include_usage = include_usage

    @abstractmethod
    def opening_chunk(self, index: int) -> JSONObject | None: ...

    @abstractmethod
    def piece_chunk(self, index: int, piece: Piece) -> JSONObject | None: ...

    @abstractmethod
    def closing_chunk(self, index: int, done: Done) -> JSONObject: ...

    @abstractmethod
    def usage_chunk(self, usage: JSONObject) -> JSONObject: ...

    def opening(self, index: int) -> list[bytes]:
        return _frames(self.opening_chunk(index))

    def piece(self, index: int, piece: Piece) -> list[bytes]:
        return _frames(self.piece_chunk(index, piece))

    def closing(self, index: int, done: Done) -> list[bytes]:
        return _frames(self.closing_chunk(index, done))

    def ending(self, index: int, choices: Sequence[Done], usage: Usage, reef: JSONObject) -> list[bytes]:
        chunks = [self.closing_chunk(index, choices[index])]
        if self._include_usage:
            chunks.append(self.usage_chunk(usage_object(usage)))
        return [*_frames(*chunks[:-1], {**chunks[-1], "reef": reef}), DONE]

    def failure(self, error: ReefError, reef: JSONObject) -> list[bytes]:
        body = error_object(error, Shape.OPENAI)
        return [*_frames({**body, "reef": reef} if reef else body), DONE]


def usage_object(usage: Usage) -> JSONObject:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _frames(*chunks: JSONObject | None) -> list[bytes]:
    return [data_frame(chunk) for chunk in chunks if chunk is not None]
