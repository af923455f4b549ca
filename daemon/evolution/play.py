"""Playing tasks: the current release and the candidate answer the same tasks, interleaved, with the same seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daemon.errors import BadRequest, EngineError, ReefError
from daemon.evolution.checkers import Judgement
from daemon.evolution.gate import FAILED_SCORE, Pair
from daemon.evolution.model_client import ModelClient
from daemon.evolution.progress import Progress
from daemon.evolution.tasks import Split, Task
from daemon.records import JSONObject

_PROMPT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Episode:
    """One side's attempt at one task."""

    score: float  # 0 … 1, or `FAILED_SCORE` when there was no reply to judge
    detail: str
    reply: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float

    def to_json(self) -> JSONObject:
        return {
            "score": self.score,
            "detail": self.detail,
            "reply": self.reply[:2000],
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class Played:
    """One task, answered by both."""

    task: str
    before: Episode
    after: Episode
    prompt: str = ""  # its first line, for people

    @property
    def pair(self) -> Pair:
        return Pair(self.task, self.before.score, self.after.score)

    def to_json(self) -> JSONObject:
        return {"task": self.task, "prompt": self.prompt, "before": self.before.to_json(), "after": self.after.to_json()}


class Player:
    """Plays tasks against both sides and reports each as it is done."""

    def __init__(
        self, current: ModelClient, candidate: ModelClient, judge: Callable[[Task, str], Judgement], progress: Progress, seed: int
    ) -> None:
        self._current = current
        self._candidate = candidate
        self._judge = judge
        self._progress = progress
        self._seed = seed

    def play(self, split: Split, tasks: Sequence[Task]) -> tuple[Played, ...]:
        """Answer every task with both sides; who goes first alternates.

        Raises:
            ReefError: the engine is not there. That is nobody's loss, so no score is made of it.
        """
        played = []
        for number, task in enumerate(tasks):
            if number % 2:
                after = self._episode(self._candidate, task)
                before = self._episode(self._current, task)
            else:
                before = self._episode(self._current, task)
                after = self._episode(self._candidate, task)
            played.append(Played(task.id, before, after, _first_line(task.last_user_text)))
            self._progress.emit(
                "task",
                split=split.value,
                task=task.id,
                before=before.score,
                after=after.score,
                done=number + 1,
                total=len(tasks),
                reply=after.reply[:200],
            )
        return tuple(played)

    def _episode(self, model: ModelClient, task: Task) -> Episode:
        try:
            reply = model.chat(
                task.conversation,
                max_tokens=task.max_tokens,
                temperature=task.temperature,
                seed=_seed_of(self._seed, task.id),
            )
        except BadRequest as error:  # too long for the window, for one: this side cannot do the task
            return Episode(FAILED_SCORE, error.message, "", 0, 0, 0.0)
        judgement = self._judge(task, reply.text)
        return Episode(
            judgement.score, judgement.detail, reply.text, reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.seconds
        )


def answer(model: ModelClient, prompt: str, max_tokens: int = 64) -> str:
    """A greedy answer to one plain prompt, for showing; a refusal is shown as its sentence.

    Raises:
        EngineError: the engine is not there.
    """
    try:
        return model.chat([{"role": "user", "content": prompt}], max_tokens=max_tokens).text
    except EngineError:
        raise
    except ReefError as error:
        return f"[{error.message}]"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_PROMPT_CHARACTERS]


def _seed_of(seed: int, task_id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{task_id}".encode()).digest()[:4]) >> 1
