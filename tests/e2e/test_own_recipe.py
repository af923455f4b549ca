"""The article's line: `reef serve -c serve.yaml`, with a recipe by dotted path from a folder of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.reef_home import MANUAL, ReefHome

pytestmark = pytest.mark.e2e

RECIPE = '''
"""A recipe of somebody's own: every accepted exchange is thanked for in the system prompt."""
from typing import ClassVar

from daemon.evolution.candidate import Candidate
from daemon.evolution.gate import Decision, Evidence, Gate, Verdict
from daemon.evolution.recipe import Batch, Recipe, RecipeSettings, Target
from daemon.serving_hints import ServingHints


class PoliteSettings(RecipeSettings):
    greeting: str = "Hello"


class Willing(Gate):
    name: ClassVar[str] = "willing"

    def decide(self, evidence: Evidence) -> Decision:
        return Decision(Verdict.PROMOTED, "this recipe's own gate has no doubts")


class PoliteRecipe(Recipe):
    name = "polite"
    target = Target.HARNESS
    Settings = PoliteSettings

    def select(self, stream):
        turns = tuple(stream.new())
        return Batch(turns=turns, new=len(turns)) if len(turns) >= self.settings.batch_size else None

    def propose(self, batch, context):
        hints = ServingHints(system_prefix=f"{self.settings.greeting}, answer politely.")
        return Candidate(change="+1 greeting", hints=hints, records=batch.records)

    def gate(self):
        return Willing()
'''

SERVE = """\
reef:
  recipe: my_recipes.polite:PoliteRecipe
  batch_size: 1
  max_staleness: 18
  greeting: Good evening
"""


def own_folder(folder: Path) -> Path:
    package = folder / "my_recipes"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "polite.py").write_text(RECIPE)
    serve = folder / "serve.yaml"
    serve.write_text(SERVE)
    return serve


def test_a_recipe_beside_serve_yaml_runs_and_its_release_serves(tmp_path: Path) -> None:
    serve = own_folder(tmp_path / "mine")
    with ReefHome(tmp_path / "home", MANUAL) as reef:
        reef.start("-c", str(serve), cwd=tmp_path)
        first = reef.ask("Say hello.")
        run = reef.run()
        assert run["status"] == "ended" or run["verdict"] == "promoted", run
        assert run["verdict"] == "promoted", run
        after = reef.ask("Say good day.")
        assert after.release == run["release_id"] != first.release
        record = reef.get(f"/reef/scenarios/default/records/{after.receipt}")
        assert "Good evening, answer politely." in str(record)
        shown = reef.releases()[0]
        assert "+1 greeting" in str(shown["change"])
        assert reef.fsck().returncode == 0


def test_the_serve_yaml_of_the_article_is_accepted_as_printed(tmp_path: Path) -> None:
    from daemon.config_load import load
    from daemon.paths import Home

    serve = tmp_path / "serve.yaml"
    serve.write_text("reef:\n  recipe: recipes.sao.recipe:SAORecipe\n  batch_size: 1\n  max_staleness: 18\n")
    loaded = load(Home(tmp_path / "home"), serve, {}, {}).config.reef
    assert loaded.recipe == "recipes.sao.recipe:SAORecipe"
    assert loaded.settings == {"batch_size": 1, "max_staleness": 18}
