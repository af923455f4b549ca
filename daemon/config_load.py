"""Reads the settings: `config.yaml`, then `serve -c FILE`, then the environment, then the command line; later wins.

An unknown key, a duplicate or a wrong type is refused with file, line and the nearest known name.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import get_args

from pydantic import BaseModel, JsonValue, ValidationError

from daemon.config import SCENARIO_NAME, SCENARIO_SECTIONS, Config, UpstreamConfig, expand_scenario, merge_section
from daemon.config_yaml import Layer, parse_scalar, read_yaml
from daemon.errors import ConfigError
from daemon.paths import Home

_PREFIX = "REEF_"
_RESTART_SECTIONS = ("server", "engine")


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """`origins` says for each setting (`server.port`) where its value came from; `files` are those to watch."""

    config: Config
    origins: Mapping[str, str]
    files: tuple[Path, ...]
    search_paths: tuple[Path, ...]
    """Folders from which a run process may import a user's own recipe."""
    where: Mapping[tuple[str, ...], str]
    """For each key that a source sets (`("server", "port")`), the source, with its line where it is a file."""

    def place(self, keys: tuple[str, ...]) -> str:
        """Where a setting stands, or the nearest thing above it that a source sets."""
        return _where(keys, self.where)


def load(
    home: Home, serve_file: Path | None, env: Mapping[str, str], overrides: Mapping[str, JsonValue], cwd: Path | None = None
) -> LoadedConfig:
    """Read and merge all sources.

    Args:
        serve_file: the file of `reef serve -c`; it must exist. The home's own file may be missing.
        env: `REEF_<SECTION>_<FIELD>`, such as `REEF_SERVER_PORT=8901`; the values are read as YAML.
        overrides: what the command line said, by dotted name (`server.port`).
        cwd: the folder that the user stands in; it joins the folders searched for recipes.

    Raises:
        ConfigError: a source cannot be read or does not validate; the sentence starts with file and line.
    """
    layers: list[Layer] = []
    if home.config.exists():
        layers.append(read_yaml(home.config))
    if serve_file is not None:
        layers.append(read_yaml(serve_file))
    layers += [_environment(env), _command_line(overrides)]
    data: dict[str, JsonValue] = {}
    origins: dict[tuple[str, ...], str] = {}
    for layer in layers:
        for section, value in layer.data.items():
            if section == "scenarios":
                data[section] = _merge_scenarios(data.get(section), value)
            else:
                data[section] = merge_section(section, data.get(section), value)
        origins.update(layer.where)
    config = _validate(data, origins)
    for name, own in config.scenarios.items():
        _check_scenario(name, own, config, origins)
    files = tuple(path for path in (home.config, serve_file) if path is not None)
    paths = tuple(path for path in (serve_file.resolve().parent if serve_file else None, cwd) if path is not None)
    return LoadedConfig(config, {name: origins.get(key, "default") for name, key in _leaves(config)}, files, paths, origins)


def restart_needed(old: Config, new: Config) -> list[str]:
    """The sections that differ and that a running daemon cannot take over: the listener's and the engine's."""
    return [name for name in _RESTART_SECTIONS if getattr(old, name) != getattr(new, name)]


def changed(old: Config, new: Config) -> list[str]:
    """The sections that differ at all."""
    return [name for name in Config.model_fields if getattr(old, name) != getattr(new, name)]


def _environment(env: Mapping[str, str]) -> Layer:
    layer = Layer({}, {})
    for variable, text in sorted(env.items()):
        section, _, field = variable.removeprefix(_PREFIX).lower().partition("_")
        if not variable.startswith(_PREFIX) or section not in Config.model_fields or section == "scenarios" or not field:
            continue  # REEF_HOME and the like
        layer.put((section, field), parse_scalar(text), f"environment {variable}")
    return layer


def _command_line(overrides: Mapping[str, JsonValue]) -> Layer:
    layer = Layer({}, {})
    for name, value in overrides.items():
        layer.put(tuple(name.split(".")), value, "command line")
    return layer


def _merge_scenarios(below: JsonValue, above: JsonValue) -> JsonValue:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    merged = dict(below)
    for name, own in above.items():
        earlier = merged.get(name)
        merged[name] = {**earlier, **own} if isinstance(earlier, dict) and isinstance(own, dict) else own
    return merged


def _validate(data: dict[str, JsonValue], origins: Mapping[tuple[str, ...], str], prefix: tuple[str, ...] = ()) -> Config:
    engine = data.get("engine")
    if isinstance(engine, dict) and "kind" not in engine:
        data = {**data, "engine": {"kind": "llama", **engine}}
    try:
        return Config.model_validate_json(json.dumps(data))
    except ValidationError as error:
        problems: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for item in error.errors():
            keys = _keys(item["loc"], data, missing=item["type"] == "missing")
            if item["type"] == "union_tag_invalid":
                keys, item["msg"] = (*keys, "kind"), f"Input should be {item.get('ctx', {}).get('expected_tags')}"
            problems.setdefault(keys, []).append((item["type"], item["msg"]))
        for keys in [keys for keys in problems if any(keys == other[: len(keys)] and keys != other for other in problems)]:
            del problems[keys]  # of a union's members the one that fits best has said more
        told = [_sentence(keys, found, data, origins, prefix) for keys, found in problems.items()]
        others = "; ".join(message.rstrip(".") for message, _ in told[1:])
        raise ConfigError(told[0][0] + (f" Also: {others}." if others else ""), told[0][1], param=".".join(next(iter(problems)))) from error


def _check_scenario(name: str, own: dict[str, JsonValue], config: Config, origins: Mapping[tuple[str, ...], str]) -> None:
    where = _where(("scenarios", name), origins)
    if not SCENARIO_NAME.fullmatch(name):
        raise ConfigError(f"{where}: '{name}' is no scenario name.", "Use a-z, 0-9 and -, at most 63 characters.")
    for section, value in own.items():
        if section not in (*SCENARIO_SECTIONS, "recipe"):
            at = _where(("scenarios", name, section), origins)
            if section in ("server", "engine"):
                raise ConfigError(
                    f"{at}: a scenario cannot have its own {section}.", f"One daemon has one; set {section}: at the top level."
                )
            raise ConfigError(f"{at}: unknown section '{section}' for a scenario.", _nearest(section, (*SCENARIO_SECTIONS, "recipe")))
        if section != "recipe" and not isinstance(value, dict):
            at = _where(("scenarios", name, section), origins)
            raise ConfigError(f"{at}: '{section}' must be a mapping.", "Write it as key: value lines.")
    data: dict[str, JsonValue] = json.loads(config.model_dump_json(exclude={"scenarios"}))
    for section, value in expand_scenario(own).items():
        data[section] = merge_section(section, data.get(section), value)
    _validate(data, origins, ("scenarios", name))


def _keys(loc: tuple[int | str, ...], data: JsonValue, *, missing: bool) -> tuple[str, ...]:
    """pydantic's location without the names of union members: those are in no file. Nor is the last part of one that is `missing`."""
    keys: list[str] = []
    here: JsonValue = data
    for index, part in enumerate(loc):
        if isinstance(here, dict) and part in here:
            here = here[str(part)]
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        elif not missing or index < len(loc) - 1 or not isinstance(here, dict):
            continue
        keys.append(str(part))
    return tuple(keys)


def _sentence(
    keys: tuple[str, ...],
    found: list[tuple[str, str]],
    data: JsonValue,
    origins: Mapping[tuple[str, ...], str],
    prefix: tuple[str, ...],
) -> tuple[str, str]:
    """A sentence and a hint for one setting; a union gives one of `found` for each of its members."""
    name = ".".join((*prefix, *keys))
    at = _where((*prefix, *keys), origins)
    kind, text = found[0]
    if kind == "extra_forbidden":
        return f"{at}: unknown setting '{name}'.", _nearest(keys[-1], _known_names(keys[:-1], data))
    if kind == "missing":
        return f"{at}: '{name}' is missing.", f"Add {keys[-1]}: under {'.'.join(keys[:-1]) or 'the top level'}."
    hint = "Change that line; `reef config check` looks at it again."
    if kind == "value_error":
        return f"{at}: {name}: {text.removeprefix('Value error, ')}.", hint
    value: JsonValue = data
    for key in keys:
        value = value[int(key)] if isinstance(value, list) else value.get(key) if isinstance(value, dict) else None
    wanted = " or ".join(text.removeprefix("Input should be ") for _, text in found)
    return f"{at}: {name} is {json.dumps(value)[:80]}, but should be {wanted}.", hint


def _where(keys: tuple[str, ...], origins: Mapping[tuple[str, ...], str]) -> str:
    for length in range(len(keys), 0, -1):
        if keys[:length] in origins:
            return origins[keys[:length]]
    return "configuration"


def _nearest(name: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"Known here: {', '.join(known)}." if known else ""


def _known_names(section: tuple[str, ...], data: JsonValue) -> tuple[str, ...]:
    if not section:
        return tuple(Config.model_fields)
    own = data.get(section[0]) if isinstance(data, dict) else None
    if section[0] == "engine" and isinstance(own, dict) and own.get("kind") == "upstream":
        return tuple(UpstreamConfig.model_fields)
    model: type[BaseModel] = Config
    for name in section:
        annotation = model.model_fields[name].annotation if name in model.model_fields else None
        members = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
        inner = next((member for member in members if isinstance(member, type) and issubclass(member, BaseModel)), None)
        if inner is None:
            return ()
        model = inner
    return tuple(model.model_fields)


def _leaves(config: Config) -> Iterator[tuple[str, tuple[str, ...]]]:
    for section, value in config.model_dump(mode="json").items():
        if isinstance(value, dict):
            for key in value:
                yield f"{section}.{key}", (section, key)
        else:
            yield section, (section,)
