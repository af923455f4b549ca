"""Any answer of the daemon as indented lines, for what has no page of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import output

if TYPE_CHECKING:
    from daemon.records import JSON


def outline(value: JSON, depth: int = 0) -> list[str]:
    """Any answer as indented lines: what is empty is left out, long lists are counted."""
    indent = "  " * depth
    lines: list[str] = []
    if isinstance(value, dict):
        for name, own in value.items():
            title = name.replace("_", " ")
            if own in (None, "", [], {}):
                continue
            if isinstance(own, str) and "\n" in own:
                lines.append(f"{indent}{title}:")
                lines += [f"{indent}  │ {line}" for line in output.printable_lines(own).splitlines()]
            elif isinstance(own, dict) or (isinstance(own, list) and any(isinstance(item, dict | list) for item in own)):
                lines += [f"{indent}{title}:", *outline(own, depth + 1)]
            elif isinstance(own, list):
                shown = ", ".join(output.printable(output.text(item)) for item in own[:8])
                lines.append(f"{indent}{title}: {shown}{f' … {len(own)} in all' if len(own) > 8 else ''}")
            elif name.endswith("_at") and output.to_seconds(own) is not None:
                lines.append(f"{indent}{title}: {output.age(own)}")
            elif name.endswith("_bytes"):
                lines.append(f"{indent}{title.removesuffix(' bytes')}: {output.size(own)}")
            else:
                lines.append(f"{indent}{title}: {output.printable(output.text(own))}")
    elif isinstance(value, list):
        for item in value:
            block = outline(item, depth + 1)
            if block:
                lines += [f"{indent}- {block[0].strip()}", *block[1:]]
    else:
        lines.append(f"{indent}{output.printable(output.text(value))}")
    return lines
