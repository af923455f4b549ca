"""Which family a chat template belongs to."""

from __future__ import annotations

import re

from daemon.engine.llama.formats.base import ToolFormat
from daemon.engine.llama.formats.deepseek import DeepSeekFencedFormat, DeepSeekFormat, DSMLFormat
from daemon.engine.llama.formats.gemma import GemmaFormat
from daemon.engine.llama.formats.glm import GLMFormat
from daemon.engine.llama.formats.harmony import HarmonyFormat
from daemon.engine.llama.formats.hermes import HermesFormat
from daemon.engine.llama.formats.kimi import KimiFormat
from daemon.engine.llama.formats.lfm2 import LFM2Format
from daemon.engine.llama.formats.listed import LISTED
from daemon.engine.llama.formats.llama3 import Llama3Format
from daemon.engine.llama.formats.mistral import MistralArrayFormat, MistralFormat
from daemon.engine.llama.formats.named import Functionary31Format, Functionary32Format, SolarFormat
from daemon.engine.llama.formats.qwen_coder import QwenCoderFormat, SeedFormat
from daemon.engine.llama.formats.tagged_families import HyFormat, MiniCPMFormat, MiniMaxFormat

FORMATS: tuple[ToolFormat, ...] = (
    HarmonyFormat(),
    DSMLFormat("deepseek-dsml", "function_calls"),
    DSMLFormat("deepseek-v4", "tool_calls"),
    DeepSeekFencedFormat(),
    DeepSeekFormat(),
    KimiFormat(),
    GemmaFormat("gemma4", ("<|tool_call>", "<tool_call|>"), '<|"|>', ("<|channel>thought\n", "<channel|>")),
    GemmaFormat("functiongemma", ("<start_function_call>", "<end_function_call>"), "<escape>"),
    MistralFormat(),
    MistralArrayFormat(),
    SeedFormat(),
    LFM2Format(),
    MiniMaxFormat(),
    MiniCPMFormat(),
    HyFormat(),
    SolarFormat(),
    Functionary32Format(),
    Functionary31Format(),
    QwenCoderFormat(),
    GLMFormat(),
    *LISTED,
    Llama3Format(),
    HermesFormat(),
)
"""All that are known. The first that recognises a template has it: the more particular ones come first."""

OURS: ToolFormat = HermesFormat()
"""What our own prompt asks for, where a template knows no tools."""

_TOOLS = re.compile(r"\btools\b")


class UnknownFormat(HermesFormat):
    """A template that knows tools and writes calls in a way that is not known here: what is in Hermes' way is read nevertheless."""

    name = "unknown"

    def recognises(self, template: str) -> bool:
        return _TOOLS.search(template) is not None


def format_of(template: str | None) -> ToolFormat:
    """How a model with this chat template (its Jinja source) writes tool calls and reasoning."""
    if not template:
        return OURS
    return next((known for known in (*FORMATS, UnknownFormat()) if known.recognises(template)), OURS)
