"""How fast the engine computes here and now, and what follows from it: how much to read between two steps, what a copy is worth."""

from __future__ import annotations

from daemon.engine.llama.batch import BATCH_TOKENS
from daemon.engine.llama.model import MIN_PIECE

WORTHWHILE = 64  # tokens from which on cells are worth keeping and copying

_PIECES = (BATCH_TOKENS - MIN_PIECE, 256, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, MIN_PIECE)
"""Tokens at once. What would be left after the last piece, if it is less than the smallest, is read with it."""
_LONE_S = 0.4  # the longest piece while no stream flows: bounds how long a newcomer waits
_LONE_LEAST = 64
_ROOM = 1.4  # steps of the running streams that a piece may take: with the step itself, which it slows down, less than 3
_ROOM_BESIDE_ONE_S = 0.025  # so long it may take beside a single stream: nobody sees that gap, and prompts are read much sooner
_ROOM_OF_ANOTHER_LORA = 2.0  # fewer and larger pieces: each costs two changes
_KEEP = 0.8  # of an older measurement
_OUTLIER = 3  # no one piece says that reading is slower than so many times what it was


class Pace:
    """Smoothed measurements. Speeds differ by how many streams flow and how long the contexts are, so both follow quickly."""

    def __init__(self) -> None:
        self._step_s: dict[int, float] = {}  # by streams in the step
        self._is_disturbed = False  # the last thing computed was a piece
        self._read_s = 0.003  # a token of a prompt
        self._copy_s = 3e-10  # a byte of a state
        self._job_s = 5.0  # a request, from its place to its end

    def stepped(self, streams: int, seconds: float) -> None:
        """A step right after a piece finds its data pushed out of the caches: it does not say what is usual."""
        was_disturbed, self._is_disturbed = self._is_disturbed, False
        if not was_disturbed or streams not in self._step_s:
            self._step_s[streams] = _smooth(self._step_s.get(streams, seconds), seconds)

    def read(self, tokens: int, seconds: float) -> None:
        """Almost up at once, down slowly: a piece that is too large is worse than one that is too small."""
        self._is_disturbed = True
        each = min(seconds / tokens, _OUTLIER * self._read_s)
        self._read_s = max(each, _smooth(self._read_s, each))

    def copied(self, size: int, seconds: float) -> None:
        self._copy_s = _smooth(self._copy_s, seconds / size)

    def ended(self, seconds: float) -> None:
        self._job_s = _smooth(self._job_s, seconds)

    def piece(self, streams: int, *, another_lora: bool = False) -> int:
        """Tokens of a prompt to read at once beside so many running streams, perhaps of another LoRA."""
        steps = _ROOM_OF_ANOTHER_LORA if another_lora else _ROOM
        room, least = (steps * self._step_s.get(streams, 0.0), MIN_PIECE) if streams else (_LONE_S, _LONE_LEAST)
        if streams == 1:
            room = max(room, _ROOM_BESIDE_ONE_S)
        return next((size for size in _PIECES if size * self._read_s <= room), least)

    def pays(self, tokens: int, size: int) -> bool:
        """Whether copying a state of `size` bytes (out and in) is worth it for `tokens` that need not be read then."""
        return tokens >= WORTHWHILE and 2 * size * self._copy_s < tokens * self._read_s

    def wait_s(self, waiting: int, streams: int) -> int:
        """Seconds until there may be room in the queue, 1 to 60: what one place takes to come free, for all that wait."""
        return max(1, min(60, round(self._job_s * (waiting + 1) / streams)))


def _smooth(old: float, new: float) -> float:
    return _KEEP * old + (1 - _KEEP) * new
