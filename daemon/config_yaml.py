"""YAML as the settings need it: with the line of every key, no duplicates, and `off` a word, not a boolean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import JsonValue

from daemon.errors import ConfigError

_LARGEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of settings: its values, and where each of them stands."""

    data: dict[str, JsonValue]
    where: dict[tuple[str, ...], str]

    def put(self, keys: tuple[str, ...], value: JsonValue, origin: str) -> None:
        here = self.data
        for key in keys[:-1]:
            below = here.setdefault(key, {})
            if not isinstance(below, dict):
                raise ConfigError(f"{origin}: {'.'.join(keys)} has no place in '{key}'.", "Name a setting as section.field.")
            here = below
        here[keys[-1]] = value
        self.where[keys] = origin


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core scalars: 1.1 reads `off` as false, `1e-3` as text and `12:30` as a number."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 -- PyYAML's own way to say it


def _resolve(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


_resolve("null", r"^(?:~|null|Null|NULL|)$", "~nN")
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^$"), [""])
_resolve("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
_resolve("int", r"^[-+]?(?:0|[1-9]\d*)$", "-+0123456789")
_resolve("float", r"^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$", "-+.0123456789")


def parse_scalar(text: str) -> JsonValue:
    """One value as a settings file would read it: `8900` a number, `off` a word. Text that is no YAML stays text."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return _value(loader, node, (), Layer({}, {}), Path("value"), set()) if node is not None else None
    except (yaml.YAMLError, ConfigError, RecursionError):
        return text


def read_yaml(path: Path) -> Layer:
    """Read one file of settings.

    Raises:
        ConfigError: it is missing, too large, no YAML mapping, or names a key twice.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path} is larger than 1 MiB, which no settings file is.", "Name another file.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.", "Name a file that exists; `reef init` writes one.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no UTF-8 text.", "Name a YAML file; `reef init` writes one.") from error
    layer = Layer({}, {})
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return layer
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{path}:1: expected sections such as 'server:'.", "`reef init` writes a file to start from.")
        value = _value(loader, node, (), layer, path, set())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(
            f"{path}:{line}: this is no YAML: {error.problem}.", "Check indentation, colons and quotes on that line."
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: this is no YAML: {error}.", "Check for control characters.") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: this is nested without end.", "Check the brackets.") from error
    if isinstance(value, dict):
        layer.data.update({key: section for key, section in value.items() if section is not None})  # `server:` alone says nothing
    return layer


def _value(loader: _Loader, node: yaml.Node, keys: tuple[str, ...], layer: Layer, path: Path, seen: set[int]) -> JsonValue:
    at = f"{path}:{node.start_mark.line + 1}"
    if id(node) in seen:
        raise ConfigError(f"{at}: anchors and aliases are not read here.", "Write the value out.")
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            line = f"{path}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{line}: a key must be a word.", "Write key: value.")
            key = key_node.value
            if key in mapping:
                first = layer.where[(*keys, key)]
                raise ConfigError(f"{line}: '{'.'.join((*keys, key))}' is set twice; the first is at {first}.", "Remove one of the two.")
            layer.where[(*keys, key)] = line
            mapping[key] = _value(loader, value_node, (*keys, key), layer, path, seen)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, (*keys, str(index)), layer, path, seen) for index, item in enumerate(node.value)]
    try:
        value = loader.construct_object(node)
        if isinstance(value, str):
            value.encode()  # an escape such as \ud800 alone is no character
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{at}: this value cannot be read.", "Use text, a number, true, false or a list.") from error
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ConfigError(f"{at}: a value of this kind is not a setting.", "Use text, a number, true, false or a list.")
