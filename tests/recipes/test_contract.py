"""What every recipe keeps to; each installed one is held to it, a user's own may be too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from daemon.engine.base import Capability
from daemon.errors import ConfigError
from daemon.evolution.discovery import find_recipe, known_recipes, validate_settings
from daemon.evolution.gate import FloorGate, Gate
from daemon.evolution.recipe import Recipe, Target
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.experience.stream import ExperienceStream
from daemon.records import TokenTrace
from tests.experience.make import inference, report, user

RECIPES = {"demos": "recipes.demos.recipe:DemosRecipe", "sft": "recipes.sft.recipe:SFTRecipe"}


@pytest.fixture(params=sorted(RECIPES))
def recipe_class(request: pytest.FixtureRequest) -> type[Recipe]:
    return find_recipe(RECIPES[str(request.param)])


def made(recipe_class: type[Recipe], **settings: int) -> Recipe:
    return recipe_class(validate_settings(recipe_class, settings))


def test_what_ships_is_installed_by_name() -> None:
    assert {name: known_recipes().get(name) for name in RECIPES} == RECIPES


def test_it_says_who_it_is_and_takes_the_article_s_settings(recipe_class: type[Recipe]) -> None:
    assert recipe_class.name in RECIPES
    assert recipe_class.target in (Target.HARNESS, Target.MODEL, Target.BOTH)
    assert isinstance(recipe_class.needs, Capability)
    made(recipe_class)
    made(recipe_class, batch_size=1, max_staleness=18)
    with pytest.raises(ConfigError, match="no setting 'batch_sise'") as raised:
        validate_settings(recipe_class, {"batch_sise": 1})
    assert raised.value.hint == "Did you mean 'batch_size'?"


def test_no_experience_is_no_batch_and_selecting_changes_nothing(recipe_class: type[Recipe], tmp_path: Path) -> None:
    store = Store.open(tmp_path / "experience.db")
    stream = ExperienceStream(Reader(store.path), "default")
    recipe = made(recipe_class, batch_size=2)
    assert recipe.select(stream) is None
    for number in range(2):
        item = inference([user(f"question {number}")], f"answer {number}", session=f"s{number}", tokens=TokenTrace((1, 2), (3,), (-0.1,)))
        store.append(item).result()
        store.append_report(report(item, score=1.0)).result()
    first, second = recipe.select(stream), recipe.select(stream)
    assert first is not None
    assert first == second
    assert first.new == 2
    assert len(first.records) == 2


def test_weights_never_pass_without_a_gate(recipe_class: type[Recipe]) -> None:
    gate = made(recipe_class).gate()
    assert gate is None or isinstance(gate, Gate)
    if Target.MODEL in recipe_class.target:
        assert not isinstance(gate, FloorGate)


def test_importing_it_imports_no_torch(recipe_class: type[Recipe]) -> None:
    code = f"import sys; import {recipe_class.__module__}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
