"""GLM 4.5 to 4.7, Ling, Laguna, Spark: the tool's name, then keys and values in tags.

    <tool_call>read
    <arg_key>path</arg_key>
    <arg_value>a.py</arg_value>
    </tool_call>

Hy3 writes the same with tags of its own, and the tags end in a word that its template chooses.
"""

from __future__ import annotations

from daemon.engine.llama.formats.tagged import TaggedFormat, Tags


class GLMFormat(TaggedFormat):
    name = "glm"
    markers = ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<think>", "</think>")
    openings = ("<tool_call>",)
    tags = Tags(
        call=("<tool_call>", ""),
        call_end="</tool_call>",
        parameter=("<arg_key>", "</arg_key>", "<arg_value>"),
        parameter_end="</arg_value>",
    )

    def recognises(self, template: str) -> bool:
        return "<arg_key>" in template and "<tool_call>" in template
