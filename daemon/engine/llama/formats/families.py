"""Which family a chat template belongs to."""

from __future__ import annotations

from daemon.engine.llama.formats.base import ToolFormat
from daemon.engine.llama.formats.hermes import HermesFormat

FORMATS: tuple[ToolFormat, ...] = (HermesFormat(),)
"""All that are known. The first that recognises a template has it: the more particular ones come first."""

OURS: ToolFormat = HermesFormat()
"""What our own prompt asks for, where a template knows no tools."""


def format_of(template: str | None) -> ToolFormat:
    """How a model with this chat template (its Jinja source) writes tool calls and reasoning."""
    return next((known for known in FORMATS if template and known.recognises(template)), OURS)
