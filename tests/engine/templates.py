"""Small chat templates of our own, each with a habit that real ones have."""

from __future__ import annotations

PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"

TOOLS = """{% if tools %}<tools>{{ tools | tojson }}</>{% endif %}
{%- for m in messages %}<{{ m.role }}>
{%- if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}
{%- for c in m.tool_calls or [] %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}</>{% endfor %}
{%- if add_generation_prompt %}<assistant>{% endif %}"""

NO_SYSTEM = """{% for m in messages %}
{%- if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('take turns') }}{% endif %}<{{ m.role }}>{{ m.content }}</>
{%- endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""

STRICT = """{% set ns = namespace(turn='user') %}{% if tools %}<tools>{{ tools | tojson }}</>{% endif %}
{%- for m in messages %}
{%- if m.role == 'system' and not loop.first %}{{ raise_exception('system comes first') }}{% endif %}
{%- if m.role in ('user', 'assistant') and not m.tool_calls %}
{%- if m.role != ns.turn %}{{ raise_exception('take turns') }}{% endif %}
{%- set ns.turn = 'assistant' if ns.turn == 'user' else 'user' %}{% endif %}<{{ m.role }}>{{ m.content }}
{%- for c in m.tool_calls or [] %}
{%- if c.id | length != 9 %}{{ raise_exception('ids have 9 letters') }}{% endif %}<call {{ c.id }}>
{{- c.function.name }} {{ c.function.arguments | tojson }}
{%- endfor %}{% if m.role == 'tool' %}<result {{ m.tool_call_id }}>{% endif %}</>{% endfor %}
{%- if add_generation_prompt %}<assistant>{% endif %}"""

ONE_CALL = """{% if tools %}<tools>{{ tools | tojson }}</>{% endif %}{% for m in messages %}<{{ m.role }}>
{%- if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one call at once') }}{% endif %}
{%- set c = m.tool_calls[0].function %}<call>{{ c.name }} {{ c.arguments | tojson }}{% else %}{{ m.content }}{% endif %}</>{% endfor %}"""

FIRST_SYSTEM_ONLY = """{% if messages[0].role == 'system' %}<system>{{ messages[0].content }}</>{% endif %}
{%- for m in messages if m.role in ('user', 'assistant') %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"""
"""Leaves out later system messages and what tools gave back, and says nothing of it."""

HOISTS_SYSTEM = """{% for m in messages if m.role == 'system' %}{{ m.content }};{% endfor %}
{%- for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"""

SYSTEM_LAST = """{% for m in messages if m.role != 'system' %}<{{ m.role }}>
{%- if loop.last and m.role == 'user' and messages[0].role == 'system' %}{{ messages[0].content }};{% endif %}
{{- m.content }}</>{% endfor %}"""
"""Writes the system text into the last turn, and only if that is the user's."""

TEXT_ARGUMENTS = """{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}
{%- for c in m.tool_calls or [] %}{{ '<call>' + c.function.name + ' ' + c.function.arguments }}{% endfor %}</>{% endfor %}"""

LISTS_TOOLS = (
    """{% if tools %}List of tools: [{{ tools | tojson }}]{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"""
)
"""Leaves out calls, as LFM2's do."""

GRANITE = """{% if tools %}{{ tools | tojson }} Answer with <|tool_call|>.{% endif %}
{%- for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"""

ITEMS = """{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}
{%- for c in m.tool_calls or [] %}<call {{ c.function.name }}>{% for k, v in c.function.arguments.items() %}<{{ k }}>{{ v }}{% endfor %}
{%- endfor %}</>{% endfor %}"""

THINKING = """{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>
{%- if m.tool_calls %}{% if m.content and m.thinking %}{{ raise_exception('not both') }}{% endif %}
{%- if m.thinking %}<analysis>{{ m.thinking }}</>{% endif %}{% endif %}{{ m.content }}
{%- for c in m.tool_calls or [] %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}</>{% endfor %}"""

ALL = {name: text for name, text in globals().items() if name.isupper() and isinstance(text, str)}
"""All of the above by name."""

HOSTILE = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "grows its own list": "{% for m in messages %}{% set _ = messages.append(m) %}{% endfor %}",
    "one great product": "{{ 'x' * n * n * n }}",
    "one great number": "{{ n ** n ** n }}",
    "one great format": "{{ '%999999999d' % n }}",
    "doubles": "{% set s = namespace(x='a' * n) %}{% for i in range(n) %}{% set s.x = s.x ~ s.x %}{% endfor %}",
    "one great list": "{{ ([1] * n * n * n) | join }}",
    "calls itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "is read slowly": "{{ ('a' * n * 40) | replace('a', 'b' * n) }}",
}
HOSTILE_SOURCE = "{% set n = 9999 + messages | length %}" + "".join(
    f"{{% if messages[0].content == '{name}' %}}{body}{{% endif %}}" for name, body in HOSTILE.items()
)
HOSTILE_SOURCE += "{{ messages[0].content }}"
"""Does what its first message names, without end."""
