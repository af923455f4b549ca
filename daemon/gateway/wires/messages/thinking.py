"""Signatures of thinking blocks: clients insist on one, and send it back. Ours can carry the reasoning that its block does not show.

It is not compressed: a request could otherwise unfold into many times its size.
"""

from __future__ import annotations

import base64
import binascii

_PLAIN = "reef.shown"
_CARRYING = "reef.carried."


def signature_of(reasoning: str, *, carried: bool) -> str:
    """Never empty: clients turn a block without a signature into plain text."""
    return _CARRYING + base64.b64encode(reasoning.encode("utf-8", "surrogatepass")).decode() if carried else _PLAIN


def carried_in(signature: str) -> str:
    """The reasoning that a signature of ours carries; empty for any other, and for one that is damaged."""
    if not signature.startswith(_CARRYING):
        return ""
    try:
        return base64.b64decode(signature[len(_CARRYING) :], validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        return ""
