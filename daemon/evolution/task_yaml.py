"""YAML that remembers its lines, so that an error in a task can say where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from daemon.errors import DataError

_MAX_BYTES = 8 << 20


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
        DataError: not readable, not YAML, a key twice, an alias, or more than 8 MiB; names file and line.
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
    return Located(None, 1) if node is None else _locate(node, path, yaml.SafeLoader(""), set())


def _locate(node: yaml.Node, path: Path, loader: yaml.SafeLoader, seen: set[int]) -> Located:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise DataError(f"{path}:{line}: aliases are not allowed here.", "Write the value out.")
    if isinstance(node, yaml.MappingNode):
        seen.add(id(node))
        keys: dict[str, Located] = {}
        for key_node, value_node in node.value:
            key = str(loader.construct_object(key_node))
            if key in keys:
                raise DataError(
                    f"{path}:{key_node.start_mark.line + 1}: {key!r} is there twice.", f"It is first set on line {keys[key].line}."
                )
            inner = _locate(value_node, path, loader, seen)
            keys[key] = Located(inner.value, key_node.start_mark.line + 1, inner.keys, inner.items)
        return Located({name: part.value for name, part in keys.items()}, line, keys)
    if isinstance(node, yaml.SequenceNode):
        seen.add(id(node))
        items = [_locate(item, path, loader, seen) for item in node.value]
        return Located([item.value for item in items], line, items=items)
    return Located(loader.construct_object(node), line)
