"""A misspelt recipe, class or setting is noticed before a run fails by it, and the user's code stays out of this process."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import psutil
import pytest

from daemon.config_load import LoadedConfig, load
from daemon.gateway.security import Names
from daemon.paths import Home
from daemon.recipe_check import check_recipes
from daemon.watching import ConfigSource, check_recipes_forever, reload
from tests.daemon.running import running, until

OWN = """
from recipes.demos.recipe import DemosRecipe

class MyRecipe(DemosRecipe):
    name = "mine"
"""


def settings(tmp_path: Path, text: str) -> LoadedConfig:
    home = Home(tmp_path / "home")
    home.root.mkdir(exist_ok=True)
    home.config.write_text(text)
    return load(home, None, {}, {}, tmp_path)


async def test_a_class_of_the_users_is_checked_without_being_imported_here(tmp_path: Path) -> None:
    (tmp_path / "checked_early.py").write_text(OWN)
    assert await check_recipes(settings(tmp_path, "reef:\n  recipe: checked_early:MyRecipe\n  batch_size: 3\n")) == []
    [problem] = await check_recipes(settings(tmp_path, "reef:\n  recipe: checked_early:MyRecip\n"))
    assert problem.message == f"{tmp_path}/home/config.yaml:2: checked_early has no recipe class 'MyRecip'."
    assert "checked_early:MyRecipe" in problem.hint
    assert "checked_early" not in sys.modules


async def test_each_scenario_is_checked_at_its_own_line_and_what_it_takes_over_is_told_once(tmp_path: Path) -> None:
    text = """reef:
  recipe: demos
  batchsize: 3
scenarios:
  a: {recipe: demo}
  b:
    reef: {max_staleness: 4}
  c:
    reef:
      max_staleness: many
      batchsize: 2
  d: {learn: {mode: off}}
"""
    problems = await check_recipes(settings(tmp_path, text))
    lines = [problem.message.removeprefix(f"{tmp_path}/home/config.yaml:").split(":")[0] for problem in problems]
    assert lines == ["3", "5", "10"], problems
    assert [problem.param for problem in problems] == ["reef.batchsize", "scenarios.a.recipe", "scenarios.c.reef.max_staleness"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("import time; time.sleep(600)", "took longer than 2 s"),
        ("import os; os._exit(0)", "ends the process that imports it"),
        ("import sys; print('{}'); sys.exit()", "ends the process that imports it"),
        ("1 / 0", "ZeroDivisionError"),
        (OWN + "    def __init__(self, settings): raise ValueError('upside down')", "cannot be made: ValueError: upside down"),
    ],
)
async def test_a_module_that_misbehaves_is_a_sentence_and_leaves_no_process(tmp_path: Path, body: str, sentence: str) -> None:
    (tmp_path / "misbehaves.py").write_text(body)
    began = time.monotonic()
    [problem] = await check_recipes(settings(tmp_path, "reef: {recipe: 'misbehaves:MyRecipe'}"), time_limit_s=2)
    assert sentence in problem.message
    assert time.monotonic() - began < 8
    assert not [child for child in psutil.Process().children() if "daemon.evolution.check_recipe" in child.cmdline()]


async def test_settings_that_nobody_changed_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.recipe_check.Child", None)
    assert await check_recipes(settings(tmp_path, "scenarios: {pi: {learn: {mode: off}}}")) == []


async def test_the_status_warns_at_the_start_and_after_a_change_while_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, settings={"reef.recipe": "demos", "reef.batchsize": 3}) as daemon:
        services = daemon.services
        checking = asyncio.create_task(check_recipes_forever(services))
        assert (await daemon.chat("x")).status_code == 200
        await until(lambda: services.warnings, 20)
        [warning] = (await daemon.client.get("/reef/status")).json()["warnings"]
        assert warning == "command line: The recipe 'demos' has no setting 'batchsize'. Did you mean 'batch_size'?"
        home, names = Home(tmp_path), Names("127.0.0.1", daemon.port)
        home.config.write_text("reef: {recipe: demoss}\n")
        await reload(ConfigSource(home, None, {}, {}, tmp_path), services, names)
        await until(lambda: any("'demoss'" in warning for warning in services.warnings), 20)
        assert not any("batchsize" in warning for warning in services.warnings)
        home.config.write_text("reef: {recipe: demos}\n")
        await reload(ConfigSource(home, None, {}, {}, tmp_path), services, names)
        await until(lambda: services.warnings == [], 20)
        monkeypatch.setattr("daemon.watching._AGAIN_S", 0.2)
        home.config.write_text("reef: {recipe: 'mended_late:MyRecipe'}\n")
        await reload(ConfigSource(home, None, {}, {}, tmp_path), services, names)
        await until(lambda: any("mended_late" in warning for warning in services.warnings), 20)
        (tmp_path / "mended_late.py").write_text(OWN)
        await until(lambda: services.warnings == [], 20)
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
