"""What one reply must be, token by token: llguidance follows the grammar and says which tokens may come next."""

from __future__ import annotations

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from daemon.errors import BadRequest


class Constraint:
    """One reply's place in its grammar. Made in one thread, then used in another, never in both.

    Args:
        matcher: at the grammar's beginning, without an error.
        param: the field of the request that asked for it, for errors.
    """

    def __init__(self, matcher: LLMatcher, param: str, vocabulary_size: int) -> None:
        self._matcher = matcher
        self._param = param
        self._mask = np.empty(-(-vocabulary_size // 32), np.int32)
        self._computed = False

    def begin(self) -> None:
        """Find out what may come first, which is the dearest. Raises BadRequest as `restrict` does."""
        if not self._computed:
            self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
            self._check()
            np.bitwise_not(self._mask, out=self._mask)
            self._computed = True

    def restrict(self, values: NDArray[np.float32]) -> None:
        """Set to minus infinity, in place, what may not come next; the end of the turn only where the grammar is satisfied.

        Raises:
            BadRequest: the grammar has become too large to follow.
        """
        self.begin()
        banned = np.unpackbits(self._mask.view(np.uint8), count=len(values), bitorder="little").view(np.bool_)
        np.putmask(values, banned, -np.inf)

    def accept(self, token: int) -> None:
        """Go on by a token that `restrict` left."""
        self._matcher.consume_token(token)
        self._check()
        self._computed = False

    @property
    def satisfied(self) -> bool:
        """Whether the reply may end here."""
        return self._matcher.is_accepting()

    def _check(self) -> None:
        if self._matcher.is_error():
            reason = self._matcher.get_error().splitlines()[0]
            raise BadRequest(
                f"The reply cannot be held to {self._param} any further: {reason}.", "Ask for a simpler structure.", param=self._param
            )
