"""Whether the recipes that the settings name are there and take their settings. A child process looks, for the code is the user's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from daemon.children import Child, ChildGone
from daemon.config import ReefConfig, expand_scenario
from daemon.config_load import LoadedConfig
from daemon.errors import ConfigError, DataError
from daemon.records import JSONObject

TIME_LIMIT_S = 20.0
_MODULE = "daemon.evolution.check_recipe"


@dataclass(frozen=True, slots=True)
class _Named:
    """One recipe that the settings name; `scenario` None: the one for all."""

    scenario: str | None
    own: Mapping[str, JsonValue]  # what the scenario sets of it by itself
    reef: ReefConfig


async def check_recipes(loaded: LoadedConfig, *, nice: int = 0, time_limit_s: float = TIME_LIMIT_S) -> list[ConfigError]:
    """What is wrong with the recipes, their classes and their settings; each sentence starts with file and line.

    The child is ended after `time_limit_s` in all. What nobody has set is ours and is not looked at.

    Raises:
        EngineError: the child cannot be started.
    """
    ends_at = time.monotonic() + time_limit_s
    problems: dict[str, ConfigError] = {}
    for named in _named(loaded):
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            break
        said = _error(await _ask(named.reef, loaded.search_paths, nice, left_s))
        if said is not None:
            problem = _placed(said, named, loaded)
            problems.setdefault(str(problem), problem)  # a scenario has the faults of what it takes over, too
    return list(problems.values())


async def takes_instructions(reef: ReefConfig, search_paths: Sequence[Path]) -> bool:
    """Whether a recipe reads what users say in words; False where it cannot be imported. Raises `EngineError` as `check_recipes` does."""
    return (await _ask(reef, search_paths, 0, TIME_LIMIT_S)).get("takes_instructions") is True


def _named(loaded: LoadedConfig) -> Iterator[_Named]:
    config = loaded.config
    if config.reef != ReefConfig():
        yield _Named(None, {}, config.reef)
    for scenario, sections in config.scenarios.items():
        own = expand_scenario(sections).get("reef")
        if isinstance(own, dict) and (reef := config.for_scenario(scenario).reef) not in (config.reef, ReefConfig()):
            yield _Named(scenario, own, reef)


async def _ask(reef: ReefConfig, search_paths: Sequence[Path], nice: int, limit_s: float) -> JSONObject:
    """One child for one recipe: whatever its module does when it is imported ends with the child. What it says, see `check_recipe`."""
    question: JSONObject = {"recipe": reef.recipe, "settings": reef.settings, "search_paths": [str(path) for path in search_paths]}
    child = await Child.start(_MODULE, [], log=Path(os.devnull), nice=nice)
    message, hint = f"The recipe {reef.recipe!r} ends the process that imports it.", "Mend the recipe's file."
    try:
        async with asyncio.timeout(limit_s):
            with contextlib.suppress(ChildGone, DataError):
                await child.send(question)
                answer = await anext(aiter(child.messages()), None)
                if answer is not None:
                    return answer
    except TimeoutError:
        message = f"The recipe {reef.recipe!r} could not be checked: importing it took longer than {limit_s:.0f} s."
        hint = "Let its module only define things."
    finally:
        await child.terminate(0)
    return {"ok": False, "message": message, "hint": hint, "param": "reef.recipe"}


def _error(answer: JSONObject) -> ConfigError | None:
    if answer.get("ok") is True:
        return None
    param = str(answer.get("param"))
    return ConfigError(
        str(answer.get("message", "")), str(answer.get("hint", "")), param=param if param.startswith("reef.") else "reef.recipe"
    )


def _placed(error: ConfigError, named: _Named, loaded: LoadedConfig) -> ConfigError:
    """The error with file and line: where the scenario sets it, or else where all scenarios have it from."""
    keys = tuple((error.param or "reef.recipe").split("."))
    if named.scenario is not None and keys[1] in named.own:
        ours = loaded.config.scenarios[named.scenario]
        short = keys[1] == "recipe" and "recipe" in ours
        keys = ("scenarios", named.scenario, *(keys[1:] if short else keys))
    return ConfigError(f"{loaded.place(keys)}: {error.message}", error.hint, param=".".join(keys))
