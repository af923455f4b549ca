"""Signatures of thinking blocks: clients insist on one, and send it back. Ours can carry the reasoning that its block does not show."""

from __future__ import annotations

import base64
import binascii
import zlib

_PLAIN = "reef.shown"
_CARRYING = "reef.zlib."
_LIMIT_BYTES = 4 << 20


def signature_of(reasoning: str, *, carried: bool) -> str:
    """Never empty: clients turn a block without a signature into plain text."""
    if not carried:
        return _PLAIN
    packed = zlib.compress(reasoning.encode("utf-8", "surrogatepass"))
    return _CARRYING + base64.b64encode(packed).decode()


def carried_in(signature: str) -> str:
    """The reasoning that a signature of ours carries; empty for any other, and for one that is damaged or too long."""
    if not signature.startswith(_CARRYING):
        return ""
    decoder = zlib.decompressobj()
    try:
        data = decoder.decompress(base64.b64decode(signature[len(_CARRYING) :], validate=True), _LIMIT_BYTES)
        return data.decode("utf-8", "surrogatepass") if decoder.eof else ""
    except (binascii.Error, ValueError, zlib.error):
        return ""
