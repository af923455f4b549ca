"""Families with tags that differ in nothing but their tags: MiniMax M2, Hy3, MiniCPM 5."""

from __future__ import annotations

from daemon.engine.llama.formats.tagged import TaggedFormat, Tags

_BEGIN, _END = "<![CDATA[", "]]>"


class MiniMaxFormat(TaggedFormat):
    """
    <minimax:tool_call>
    <invoke name="read">
    <parameter name="path">a.py</parameter>
    </invoke>
    </minimax:tool_call>
    """

    name = "minimax"
    tags = Tags(
        call=('<invoke name="', '">'),
        call_end="</invoke>",
        parameter=('<parameter name="', '">'),
        parameter_end="</parameter>",
        open="<minimax:tool_call>",
        close="</minimax:tool_call>",
    )
    markers = (tags.open, tags.close, "<think>", "</think>")
    openings = interrupts = (tags.open,)

    def recognises(self, template: str) -> bool:
        return self.tags.open in template


class HyFormat(TaggedFormat):
    """GLM's way, with a name of its own in each tag: `<tool_calls:opensource><tool_call:opensource>read<tool_sep:opensource>…`."""

    name = "hy3"
    tags = Tags(
        call=("<tool_call:opensource>", "<tool_sep:opensource>"),
        call_end="</tool_call:opensource>",
        parameter=("<arg_key:opensource>", "</arg_key:opensource>", "<arg_value:opensource>"),
        parameter_end="</arg_value:opensource>",
        open="<tool_calls:opensource>",
        close="</tool_calls:opensource>",
    )
    reasoning = ("<think:opensource>", "</think:opensource>")
    markers = (tags.open, tags.close, *tags.call, tags.call_end, *tags.parameter, tags.parameter_end, *reasoning)
    openings = interrupts = (tags.open,)

    def recognises(self, template: str) -> bool:
        return "'<tool_calls{}>'" in template and "':opensource'" in template


class MiniCPMFormat(TaggedFormat):
    """`<function name="read"><param name="path"><![CDATA[a.py]]></param></function>`"""

    name = "minicpm"
    tags = Tags(call=('<function name="', '">'), call_end="</function>", parameter=('<param name="', '">'), parameter_end="</param>")
    markers = ("<think>", "</think>")
    openings = (tags.call[0],)

    def recognises(self, template: str) -> bool:
        return '<function name="' in template and '<param name="' in template

    def bare(self, value: str) -> str:
        """A value that has special characters stands in CDATA."""
        return value[len(_BEGIN) : -len(_END)] if value.startswith(_BEGIN) and value.endswith(_END) else value
