"""Changing one thing in a settings file and nothing else: comments, order and layout stay as the person wrote them."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path

import yaml

from daemon.errors import ConfigError
from daemon.files import write_atomic

_HINT = "Change it by hand, then: reef config check."


def with_section(text: str, name: str, section: str) -> str:
    """`text` with its top-level section `name` replaced by `section`, or with that added at its end."""
    lines = text.splitlines(keepends=True)
    start = next((index for index, line in enumerate(lines) if line.startswith(f"{name}:")), None)
    if start is None:
        return text.rstrip("\n") + "\n\n" + section if text.strip() else section
    end = index = start + 1
    while index < len(lines) and lines[index][0] in " \t\n#":  # blank lines and comments after the last setting belong to what follows
        index += 1
        if lines[index - 1][0] in " \t" and lines[index - 1].strip():
            end = index
    return "".join((*lines[:start], section, *lines[end:]))


def with_setting(text: str, keys: tuple[str, ...], value: str) -> str:
    """`text` with one setting changed or added, such as `scenarios`, `pi`, `learn`, `mode`.

    Raises:
        ConfigError: the file is written in a way that this cannot change.
    """
    try:
        edited = _with_setting(text, keys, value)
        node = yaml.compose(edited, yaml.SafeLoader)
        for key in keys:
            node = _child(node, key)
    except yaml.YAMLError as error:
        raise ConfigError("The settings file is no YAML.", _HINT) from error
    if _said(node) != value:
        raise ConfigError("The settings file is written in a way that Reef cannot change by itself.", _HINT)
    return edited


def with_model(text: str, model: str) -> str:
    """`text` with the embedded engine serving `model`; its other settings stay where they were for that kind of engine.

    Raises:
        ConfigError: the file is written in a way that this cannot change.
    """
    try:
        engine = _child(yaml.compose(text, yaml.SafeLoader), "engine")
    except yaml.YAMLError as error:
        raise ConfigError("The settings file is no YAML.", _HINT) from error
    if not isinstance(engine, yaml.MappingNode) or _said(_child(engine, "kind")) not in ("", "llama"):
        text = with_section(text, "engine", f"engine:\n  kind: llama\n  model: {scalar(model)}\n")
    edited = with_setting(text, ("engine", "model"), model)
    if _said(_child(_child(yaml.compose(edited, yaml.SafeLoader), "engine"), "kind")) not in ("", "llama"):
        raise ConfigError("The settings file is written in a way that Reef cannot change by itself.", _HINT)
    return edited


def write_model(config: Path, model: str) -> bool:
    """Let the settings file name `model`; False if it does already.

    Raises:
        ConfigError, StorageError: it cannot be changed, and is as it was.
    """
    return _rewrite(config, lambda text: with_model(text, model))


def write_setting(config: Path, keys: tuple[str, ...], value: str) -> bool:
    """Let the settings file give `value` to one setting; False if it does already. Raises as `write_model` does."""
    return _rewrite(config, lambda text: with_setting(text, keys, value))


def _rewrite(config: Path, edit: Callable[[str], str]) -> bool:
    config = config.resolve()  # it may be a link into somebody's own repository
    try:
        text = config.read_text(encoding="utf-8") if config.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{config} cannot be read: {error}.", _HINT) from error
    edited = edit(text)
    if edited == text:
        return False
    write_atomic(config, edited, stat.S_IMODE(config.stat().st_mode) if config.exists() else 0o600)
    return True


def _with_setting(text: str, keys: tuple[str, ...], value: str) -> str:
    node = yaml.compose(text, yaml.SafeLoader)
    for depth, key in enumerate(keys):
        child = _child(node, key)
        if depth == len(keys) - 1 and child is not None:
            return text[: child.start_mark.index] + scalar(value) + text[child.end_mark.index :]
        if isinstance(child, yaml.MappingNode):
            node = child
            continue
        if child is not None and _said(child) not in ("", "~", "null"):
            raise ConfigError(f"{'.'.join(keys[: depth + 1])} in the settings file is no section.", _HINT)
        if child is not None:  # the key stands there, and nothing behind it
            start, end = child.start_mark.index, child.end_mark.index
            flow = _flow(keys[depth + 1 :], value)
            return f"{text[:start]} {{{flow}}}{text[end:]}" if start == end else f"{text[:start]}{{{flow}}}{text[end:]}"
        return _added(text, node, keys[depth:], value, outermost=depth == 0)
    return text


def _added(text: str, node: yaml.Node | None, keys: tuple[str, ...], value: str, *, outermost: bool) -> str:
    """`text` with `keys` and the value in the mapping `node`, which has no such key; None: the file is empty."""
    if node is not None and isinstance(node, yaml.MappingNode) and node.flow_style:
        at = node.start_mark.index + 1
        return text[:at] + _flow(keys, value) + (", " if node.value else "") + text[at:]
    column = node.start_mark.column if node is not None else 0
    lines = [f"{' ' * (column + 2 * depth)}{scalar(key)}:" for depth, key in enumerate(keys)]
    block = "\n".join(lines) + f" {scalar(value)}\n"
    if node is None or outermost:
        return text.rstrip("\n") + "\n\n" + block if text.strip() else block
    at = node.start_mark.index
    return text[:at] + block.lstrip() + " " * column + text[at:]


def _flow(keys: tuple[str, ...], value: str) -> str:
    return ": {".join(scalar(key) for key in keys) + f": {scalar(value)}" + "}" * (len(keys) - 1)


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if isinstance(name, yaml.ScalarNode) and name.value == key), None)


def _said(node: yaml.Node | None) -> str:
    """The text of a scalar, `-` for anything else that is there."""
    return "" if node is None else node.value if isinstance(node, yaml.ScalarNode) else "-"


def scalar(text: str) -> str:
    """Plain where YAML reads it as the same text, quoted otherwise."""
    if re.fullmatch(r"[A-Za-z/][\w./-]*", text, re.ASCII) and text.lower() not in ("true", "false", "null"):
        return text
    escaped = (character if character.isprintable() and character not in '"\\' else f"\\U{ord(character):08X}" for character in text)
    return f'"{"".join(escaped)}"'
