"""Changing one thing in a settings file and nothing else: comments, order and layout stay as the person wrote them."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import yaml

from daemon.errors import ConfigError
from daemon.files import write_atomic

_HINT = "Change engine.model in it by hand, then: reef down, reef up."


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


def with_model(text: str, model: str) -> str:
    """`text` with the embedded engine serving `model`; its other settings stay where they were for that kind of engine.

    Raises:
        ConfigError: the file is written in a way that this cannot change.
    """
    try:
        edited = _with_model(text, model)
        engine = _child(yaml.compose(edited, yaml.SafeLoader), "engine")
    except yaml.YAMLError as error:
        raise ConfigError("The settings file is no YAML.", _HINT) from error
    if _said(_child(engine, "model")) != model or _said(_child(engine, "kind")) not in ("", "llama"):
        raise ConfigError("The settings file is written in a way that Reef cannot change by itself.", _HINT)
    return edited


def write_model(config: Path, model: str) -> bool:
    """Let the settings file name `model`; False if it does already.

    Raises:
        ConfigError, StorageError: it cannot be changed, and is as it was.
    """
    config = config.resolve()  # it may be a link into somebody's own repository
    try:
        text = config.read_text(encoding="utf-8") if config.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{config} cannot be read: {error}.", _HINT) from error
    edited = with_model(text, model)
    if edited == text:
        return False
    write_atomic(config, edited, stat.S_IMODE(config.stat().st_mode) if config.exists() else 0o600)
    return True


def _with_model(text: str, model: str) -> str:
    section = f"engine:\n  kind: llama\n  model: {scalar(model)}\n"
    engine = _child(yaml.compose(text, yaml.SafeLoader), "engine")
    if not isinstance(engine, yaml.MappingNode) or _said(_child(engine, "kind")) not in ("", "llama"):
        return with_section(text, "engine", section)
    present = _child(engine, "model")
    if present is not None:
        return text[: present.start_mark.index] + scalar(model) + text[present.end_mark.index :]
    at = engine.start_mark.index
    if engine.flow_style:
        return text[: at + 1] + f"model: {scalar(model)}" + (", " if engine.value else "") + text[at + 1 :]
    return text[:at] + f"model: {scalar(model)}\n" + " " * engine.start_mark.column + text[at:]


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if isinstance(name, yaml.ScalarNode) and name.value == key), None)


def _said(node: yaml.Node | None) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) else ""


def scalar(text: str) -> str:
    """Plain where YAML reads it as the same text, quoted otherwise."""
    if re.fullmatch(r"[A-Za-z/][\w./-]*", text, re.ASCII) and text.lower() not in ("true", "false", "null"):
        return text
    escaped = (character if character.isprintable() and character not in '"\\' else f"\\U{ord(character):08X}" for character in text)
    return f'"{"".join(escaped)}"'
