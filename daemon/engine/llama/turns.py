"""Which LoRA the next step is computed under. A step holds sequences of one LoRA only; changing it makes llama.cpp plan anew."""

from __future__ import annotations

TURN_STEPS = 8  # steps of one LoRA before the next one's turn


class Turns:
    def __init__(self) -> None:
        self._lora: str | None = None
        self._left = TURN_STEPS

    def next(self, wanted: list[str | None]) -> str | None:
        """The LoRA whose turn it is among `wanted` (each once, never empty): the one before, until its turn is over."""
        self._left -= 1
        if self._lora not in wanted or (self._left <= 0 and len(wanted) > 1):
            after = wanted.index(self._lora) + 1 if self._lora in wanted else 0
            self._lora = wanted[after % len(wanted)]
            self._left = TURN_STEPS
        return self._lora
