"""Finding a recipe: by the name of its entry point (`sft`) or by its dotted path (`package.module:Class`).

A dotted path imports the user's code, so this is called in the run process and nowhere else.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path

from pydantic import BaseModel, ValidationError

from daemon.errors import ConfigError
from daemon.evolution.recipe import Recipe
from daemon.plugin_path import search_also
from daemon.records import JSON

GROUP = "reef.recipes"


def known_recipes() -> dict[str, str]:
    """Name → dotted path of every installed recipe."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


def find_recipe(path: str, search_paths: Sequence[Path] = ()) -> type[Recipe]:
    """The recipe class that `path` names.

    Args:
        path: an installed recipe's name, or `package.module:Class`.
        search_paths: folders of the user's that dotted paths may be found in; they come after everything installed,
            so that none of their files can shadow ours.

    Raises:
        ConfigError: no such recipe, with the nearest known name; or its module cannot be imported, with its own error.
    """
    known = known_recipes()
    dotted = known.get(path, path)
    module_name, separator, class_name = dotted.partition(":")
    if not separator:
        raise ConfigError(f"There is no recipe named {path!r}.", _nearest(path, [*known, *known.values()]), param="reef.recipe")
    search_also(search_paths)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise ConfigError(
                f"The recipe {path!r} cannot be found: there is no module {error.name!r}.",
                _nearest(path, [*known, *known.values()]),
                param="reef.recipe",
            ) from error
        raise ConfigError(
            f"The recipe {path!r} needs the module {error.name!r}, which is not installed.",
            "Install it into Reef's virtual environment.",
            param="reef.recipe",
        ) from error
    except Exception as error:  # a plugin may raise anything
        raise ConfigError(
            f"The recipe {path!r} cannot be imported: {type(error).__name__}: {error}.", "Mend the recipe's file.", param="reef.recipe"
        ) from error
    found = vars(module).get(class_name)
    if not (isinstance(found, type) and issubclass(found, Recipe)):
        classes = [f"{module_name}:{name}" for name, value in vars(module).items() if _is_recipe(value)]
        raise ConfigError(f"{module_name} has no recipe class {class_name!r}.", _nearest(dotted, classes), param="reef.recipe")
    return found


def validate_settings(recipe: type[Recipe], settings: Mapping[str, JSON]) -> BaseModel:
    """The recipe's settings, checked.

    Raises:
        ConfigError: an unknown key, with the nearest known one, or a wrong type; names the setting.
    """
    try:
        return recipe.Settings.model_validate(dict(settings))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            hint = _nearest(name, list(recipe.Settings.model_fields))
            raise ConfigError(f"The recipe {recipe.name!r} has no setting {name!r}.", hint, param=f"reef.{name}") from error
        raise ConfigError(
            f"The setting {name!r} of the recipe {recipe.name!r} is not valid: {first['msg']}.",
            "Change it under `reef:` in the configuration.",
            param=f"reef.{name}",
        ) from error


def _is_recipe(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Recipe) and value is not Recipe


def _nearest(wrong: str, known: Sequence[str]) -> str:
    close = get_close_matches(wrong, known, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known: {', '.join(sorted(known))}." if known else "Name one as `package.module:Class`."
