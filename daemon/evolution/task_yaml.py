"""YAML that remembers its lines, so that an error in a task can say where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from daemon.errors import DataError

_MAX_BYTES = 8 << 20
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Located:
    """A value, the line that it begins on (from 1), and its parts."""

    value: object
    line: int
    keys: dict[str, Located] = field(default_factory=dict)
    items: list[Located] = field(default_factory=list)

    def at(self, path: Sequence[int | str]) -> Located:
        """The deepest part along `path` that exists."""
        here = self
        for part in path:
            if isinstance(part, str) and part in here.keys:
                here = here.keys[part]
            elif isinstance(part, int) and part < len(here.items):
                here = here.items[part]
            else:
                break
        return here


def load_yaml(path: Path) -> Located:
    """Read one YAML document.

    Raises:
        DataError: not readable, not YAML, a key twice, an alias, nested without end, or more than 8 MiB; names file and line.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DataError(f"{path} is larger than {_MAX_BYTES >> 20} MiB.", "Split it into several files.")
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot read {path}: {error}.", "It must be a readable UTF-8 file.") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise DataError(f"{path}:{line}: this is no YAML: {error.problem}.", "Check indentation and quotes.") from error
    except yaml.YAMLError as error:
        raise DataError(f"{path}: this is no YAML: {error}.", "Check indentation and quotes.") from error
    except RecursionError as error:
        raise DataError(f"{path}: this is nested without end.", "Check the brackets.") from error
    return Located(None, 1) if node is None else _locate(node, path, yaml.SafeLoader(""), set())


def _locate(node: yaml.Node, path: Path, loader: yaml.SafeLoader, seen: set[int], depth: int = 0) -> Located:
    line = node.start_mark.line + 1
    if depth > _MAX_DEPTH:
        raise DataError(f"{path}:{line}: this is nested more than {_MAX_DEPTH} levels deep.", "Check the brackets.")
    if id(node) in seen:
        raise DataError(f"{path}:{line}: aliases are not allowed here.", "Write the value out.")
    if isinstance(node, yaml.MappingNode):
        seen.add(id(node))
        keys: dict[str, Located] = {}
        for key_node, value_node in node.value:
            key = str(_scalar(key_node, path, loader))
            if key in keys:
                raise DataError(
                    f"{path}:{key_node.start_mark.line + 1}: {key!r} is there twice.", f"It is first set on line {keys[key].line}."
                )
            inner = _locate(value_node, path, loader, seen, depth + 1)
            keys[key] = Located(inner.value, key_node.start_mark.line + 1, inner.keys, inner.items)
        return Located({name: part.value for name, part in keys.items()}, line, keys)
    if isinstance(node, yaml.SequenceNode):
        seen.add(id(node))
        items = [_locate(item, path, loader, seen, depth + 1) for item in node.value]
        return Located([item.value for item in items], line, items=items)
    return Located(_scalar(node, path, loader), line)


def _scalar(node: yaml.Node, path: Path, loader: yaml.SafeLoader) -> object:
    """One value. PyYAML fails in many ways over what only looks like a date or a number, and over tags that it does not know."""
    at = f"{path}:{node.start_mark.line + 1}"
    if not isinstance(node, yaml.ScalarNode):
        raise DataError(f"{at}: a key must be a word.", "Write key: value.")
    try:
        value: object = loader.construct_object(node)
        if isinstance(value, str):
            value.encode()  # an escape such as \ud800 alone is no character, and could not be stored
    except (yaml.YAMLError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        shown = node.value if len(node.value) <= 40 else node.value[:39] + "…"
        raise DataError(f"{at}: {shown!r} is no value of the kind that it looks like.", "Put a text into quotes.") from error
    return value
