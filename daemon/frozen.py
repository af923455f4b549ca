"""`dataclass(frozen=True, slots=True)` for what every request makes: frozen for whoever checks the types, who refuses an assignment.

While it runs it is not, for an object whose class refuses assignments is filled field by field through a function of `object`, which takes
three times as long. Equality and hash are those of a frozen one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses

    def dataclass(*, frozen, slots):
        return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)
