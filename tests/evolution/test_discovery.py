"""Finding a recipe: by name, by dotted path from a folder of the user's; what is wrong is named with the nearest known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from daemon.errors import ConfigError
from daemon.evolution.discovery import find_recipe, validate_settings
from recipes.demos.recipe import DemosRecipe, DemosSettings

OWN = """
from daemon.evolution.recipe import Recipe, Target

class MyRecipe(Recipe):
    name = "mine"
    target = Target.HARNESS
    def select(self, stream): return None
    def propose(self, batch, context): return None
"""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_a_dotted_path_finds_ours() -> None:
    assert find_recipe("recipes.demos.recipe:DemosRecipe") is DemosRecipe


def test_a_recipe_from_a_folder_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "own_recipe_a.py").write_text(OWN)
    with pytest.raises(ConfigError, match="no module 'own_recipe_a'"):
        find_recipe("own_recipe_a:MyRecipe")
    assert find_recipe("own_recipe_a:MyRecipe", [tmp_path]).name == "mine"


def test_a_users_file_cannot_shadow_ours(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "__init__.py").write_text("raise RuntimeError('shadowed')")
    assert find_recipe("recipes.demos.recipe:DemosRecipe", [tmp_path]) is DemosRecipe


def test_a_folder_recipes_of_the_users_joins_ours(tmp_path: Path) -> None:
    own = tmp_path / "recipes" / "own_method"
    own.mkdir(parents=True)
    (own / "recipe.py").write_text(OWN)
    assert find_recipe("recipes.own_method.recipe:MyRecipe", [tmp_path]).name == "mine"
    assert find_recipe("recipes.demos.recipe:DemosRecipe", [tmp_path]) is DemosRecipe


def test_an_unknown_class_and_a_broken_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "own_recipe_b.py").write_text(OWN)
    (tmp_path / "own_recipe_c.py").write_text("import no_such_thing\n")
    (tmp_path / "own_recipe_d.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError) as raised:
        find_recipe("own_recipe_b:MyRecip", [tmp_path])
    assert "own_recipe_b:MyRecipe" in raised.value.hint
    with pytest.raises(ConfigError, match="needs the module 'no_such_thing'"):
        find_recipe("own_recipe_c:X", [tmp_path])
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        find_recipe("own_recipe_d:X", [tmp_path])
    with pytest.raises(ConfigError, match="no recipe named"):
        find_recipe("demosss")


def test_settings_are_validated_with_the_nearest_known_name() -> None:
    settings = validate_settings(DemosRecipe, {"batch_size": 2, "max_staleness": 18})
    assert isinstance(settings, DemosSettings)
    with pytest.raises(ConfigError) as raised:
        validate_settings(DemosRecipe, {"batchsize": 2})
    assert raised.value.hint == "Did you mean 'batch_size'?"
    assert raised.value.param == "reef.batchsize"
    with pytest.raises(ConfigError, match="batch_size"):
        validate_settings(DemosRecipe, {"batch_size": "many"})
