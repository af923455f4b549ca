"""Setting and removing single values of a TOML file that others write too: their values, comments and order stay."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Final, cast

import tomlkit
from tomlkit.container import OutOfOrderTableProxy
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Item

from daemon.errors import DataError
from daemon.records import JSON, JSONObject

Path = tuple[str, ...]
"""`("features", "plugins")` is `plugins` below `[features]`."""

_AGAIN: Final = "Mend or remove the file, then run `reef install codex` again."
_LARGEST_INTEGER: Final = 2**63 - 1


def read_toml(name: str, text: str | None) -> dict[str, object]:
    """Empty for a file that is not there. Raises DataError: it is no TOML; names file and line."""
    try:
        return tomllib.loads(text or "")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"codex's {name}: {error}.", _AGAIN) from error


def edit(name: str, text: str, put: Mapping[Path, JSON], remove: Iterable[Path] = ()) -> str:
    """`text` with the values `put`, and without `remove`; a table that gets empty by that goes too. What is as it should be is not touched.

    Raises:
        DataError: it is no TOML, or a value stands where a table is needed; names the file.
    """
    expected = read_toml(name, text)
    for path in remove:
        _remove(expected, path)
    for path, value in put.items():
        _put(name, expected, path, value)
    try:
        document = tomlkit.parse(text)
        for path in remove:
            _remove(document, path)
        for path, value in put.items():
            _put(name, document, path, value)
        edited = tomlkit.dumps(document)
        matches = tomllib.loads(edited) == expected
    except (TOMLKitError, tomllib.TOMLDecodeError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise DataError(f"codex's {name} cannot be changed: {error}.", _AGAIN) from error
    if not matches:
        raise DataError(f"codex's {name} is written in a way that Reef cannot change safely.", "Write its tables as [NAME], one a line.")
    return edited


def find(content: Mapping[str, object], path: Path) -> object:
    """The value at `path`; None: it is not there (TOML itself has no such value)."""
    value: object = content
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def leaves(content: JSONObject, below: Path = ()) -> Iterator[tuple[Path, JSON]]:
    """Every value that is no table, or an empty one. What TOML cannot hold is left out."""
    for key, value in content.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*below, key))
        elif _fits(value):
            yield (*below, key), value


def same(one: object, other: object) -> bool:
    """Whether both are the same value of the same type: 1, 1.0 and true differ."""
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)


def _fits(value: JSON) -> bool:
    if isinstance(value, dict):
        return all(_fits(one) for one in value.values())
    if isinstance(value, list):
        return all(_fits(one) for one in value)
    if isinstance(value, int):
        return abs(value) <= _LARGEST_INTEGER
    return value is not None


def _put(name: str, content: MutableMapping[str, object], path: Path, value: JSON) -> None:
    table = content
    for depth, part in enumerate(path[:-1], start=1):
        if part not in table:
            table[part] = tomlkit.table(is_super_table=depth < len(path) - 1) if isinstance(content, tomlkit.TOMLDocument) else {}
        below = table[part]
        if not isinstance(below, MutableMapping):
            raise DataError(f"codex's {name}: {'.'.join(path[:depth])} is a value, and must be a table.", _AGAIN)
        table = cast(MutableMapping[str, object], below)
    if path[-1] not in table or not same(_plain(table[path[-1]]), value):
        table[path[-1]] = value


def _remove(content: MutableMapping[str, object], path: Path) -> None:
    part, *rest = path
    if part not in content:
        return
    if not rest:
        del content[part]
        return
    below = content[part]
    if isinstance(below, MutableMapping):
        _remove(cast(MutableMapping[str, object], below), tuple(rest))
        if not below:
            del content[part]


def _plain(value: object) -> object:
    return value.unwrap() if isinstance(value, Item | OutOfOrderTableProxy) else value
