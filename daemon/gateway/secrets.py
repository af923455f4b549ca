"""Secrets out of a record before it is stored, in its token ids alike."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from daemon.engine.base import Engine
from daemon.errors import ReefError
from daemon.gateway.admission import is_long
from daemon.records import Inference, TokenTrace
from daemon.redaction.redact import RedactionRule
from daemon.redaction.redactor import Secret
from daemon.redaction.tokens import Spelling, masked_trace

_log = logging.getLogger("reef.gateway")


class _EngineSpelling(Spelling):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def pieces(self, tokens: list[int]) -> list[bytes]:
        return await self._engine.pieces(tokens)

    async def tokenize(self, text: str) -> list[int]:
        return await self._engine.tokenize(text)


async def without_secrets(inference: Inference, rule: RedactionRule, engine: Engine) -> Inference:
    """The record with placeholders in its texts and its ids; the same object where there is nothing to hide.

    A record without ids comes back as it is: the store takes secrets out of texts by itself.
    """
    if inference.tokens is None or not rule.applies(inference.scenario):
        return inference
    found: list[Secret] = []
    if is_long(inference.messages, inference.request):
        redacted = await asyncio.to_thread(rule.redacted, inference, found)
    else:
        redacted = rule.redacted(inference, found)
    return replace(redacted, tokens=await _trace(inference, inference.tokens, found, engine)) if found else inference


async def _trace(inference: Inference, tokens: TokenTrace, found: list[Secret], engine: Engine) -> TokenTrace | None:
    """None, and a line in the log, where the secrets cannot be taken out of the ids."""
    try:
        if inference.model == engine.model.id:  # another model's ids spell something else
            trace = await masked_trace(tokens, found, _EngineSpelling(engine))
            if trace is not None:
                return trace
        reason = "they do not show where the secrets stand"
    except ReefError as error:
        reason = error.message
    _log.warning("The token ids of %s are not kept, and nothing is trained on it: %s", inference.id, reason)
    return None
