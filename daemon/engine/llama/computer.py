"""One decode call for given jobs, and what it means for them. Who they are is the scheduler's choice."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence as Rows
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from daemon.engine.llama.batch import Row
from daemon.engine.llama.cache.saved_states import States
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.messages import delta_message
from daemon.engine.llama.model import MIN_PIECE, LoRAHandle
from daemon.engine.llama.pace import Pace
from daemon.engine.llama.protocol import error_to_json
from daemon.engine.llama.sampling import check_numbers, log_softmax
from daemon.engine.llama.sequence import Embedding, Job, Score, Sequence
from daemon.errors import EngineError, ReefError
from daemon.records import JSONObject


class Tokens(Protocol):
    """The vocabulary, as far as it is needed here."""

    def piece(self, token: int, *, special: bool = False) -> bytes: ...

    def ends(self, token: int) -> bool: ...


class Decoder(States, Protocol):
    """The model, as far as it is needed here."""

    def decode(self, rows: Rows[Row], lora: LoRAHandle | None) -> NDArray[np.float32]: ...

    def embed(self, rows: Rows[Row]) -> NDArray[np.float32]: ...


class Computer:
    """Each call returns the messages that it gave rise to, and sets `is_over` of the jobs that end with it."""

    def __init__(self, decoder: Decoder, tokens: Tokens, loras: LoadedLoRAs, pace: Pace) -> None:
        self._decoder = decoder
        self._tokens = tokens
        self._loras = loras
        self._pace = pace
        self.generated_tokens = 0
        """Of all replies, evaluation's too."""

    def advance(self, jobs: Rows[Sequence]) -> list[JSONObject]:
        """One token for each of these sequences of one LoRA, which have read their prompts."""
        # By slot: llama.cpp computes only neighbours in ascending order together, and anything else in several passes over the weights.
        seated = sorted(((job, job.slot) for job in jobs if job.slot is not None), key=lambda pair: pair[1].index)
        rows = [Row(job.completion[-1], len(slot.cells), slot.index, True) for job, slot in seated]
        began = time.perf_counter()
        try:
            logits = self._decoder.decode(rows, self._loras.handle(jobs[0].lora_id))
        except ReefError as error:
            return [message for job in jobs for message in self._fail(job, error)]
        messages: list[JSONObject] = []
        for (job, slot), row, values in zip(seated, rows, logits, strict=True):
            slot.cells.append(row.token)
            messages += self._sample(job, values)
        self._pace.stepped(len(rows), time.perf_counter() - began)
        return messages

    def read(self, job: Job, limit: int) -> list[JSONObject]:
        """Read the next piece of a prompt, about `limit` tokens; at a sequence's end, sample its first token."""
        slot = job.slot
        if slot is None:
            return []
        size = job.unread if job.unread < limit + MIN_PIECE else limit
        piece = job.prompt[job.read : job.read + size]
        is_last, all_wanted = job.unread == size, not isinstance(job, Sequence)
        # A LoRA that makes no numbers must be found out before anyone takes its cells.
        shown = len(piece) - 1 if is_last or job.lora_id is not None else -1
        rows = [Row(token, job.read + index, slot.index, all_wanted or index == shown) for index, token in enumerate(piece)]
        began = time.perf_counter()
        try:
            outputs = (
                self._decoder.embed(rows) if isinstance(job, Embedding) else self._decoder.decode(rows, self._loras.handle(job.lora_id))
            )
            if not isinstance(job, Embedding):
                check_numbers(outputs.max(axis=-1))
        except ReefError as error:
            return self._fail(job, error)
        self._pace.read(len(piece), time.perf_counter() - began)
        slot.cells += piece
        job.read += len(piece)
        if isinstance(job, Sequence) and is_last:
            return self._sample(job, outputs[0])
        if isinstance(job, Score):
            return self._scored(job, piece, outputs)
        if isinstance(job, Embedding):
            return self._embedded(job, outputs)
        return [{"type": "progress", "id": job.id, "done": job.read, "total": len(job.prompt)}]

    def _sample(self, job: Sequence, logits: NDArray[np.float32]) -> list[JSONObject]:
        try:
            choice = job.sampler.choose(logits)
            shown = job.accept(choice, self._tokens.piece(choice.token), self._tokens.ends(choice.token))
        except EngineError as error:
            return self._fail(job, error)
        except ReefError as error:
            return self._end(job, error_to_json(job.id, error))
        except Exception:  # noqa: BLE001 - the top of one reply: what its words do to its parser must not end the others
            traceback.print_exc()
            failure = EngineError("The engine could not read its own reply.", "Its log, engine.log, says why.")
            return self._end(job, error_to_json(job.id, failure))
        self.generated_tokens += 1
        messages = [delta_message(job.id, delta) for delta in shown]
        if job.finish_reason:
            job.is_over = True
            messages.append(job.finished())
        return messages

    def _scored(self, job: Score, piece: list[int], logits: NDArray[np.float32]) -> list[JSONObject]:
        following = job.prompt[job.read - len(piece) + 1 : job.read + 1]
        normal = log_softmax(logits[: len(following)])
        job.values += [min(0.0, float(value)) for value in normal[np.arange(len(following)), following]]
        return [] if job.unread else self._end(job, job.result())

    def _embedded(self, job: Embedding, vectors: NDArray[np.float32]) -> list[JSONObject]:
        is_text_over = job.unread == 0
        job.add(vectors)
        if is_text_over:
            self._empty(job)
        return [] if job.unread else self._end(job, job.result())

    def _fail(self, job: Job, error: ReefError) -> list[JSONObject]:
        """End a job whose cells are unknown now."""
        self._empty(job)
        return self._end(job, error_to_json(job.id, error))

    def _end(self, job: Job, message: JSONObject) -> list[JSONObject]:
        job.is_over = True
        return [message]

    def _empty(self, job: Job) -> None:
        if job.slot is not None:
            job.slot.cells = job.slot.cells[: self._decoder.truncate(job.slot.index, 0)]
