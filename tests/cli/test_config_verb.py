"""`reef config` says where a value comes from, and shows no secret."""

from __future__ import annotations

import json
from pathlib import Path


def test_show_names_the_source_of_each_value(reef, home, monkeypatch, tmp_path: Path) -> None:
    home.root.mkdir(parents=True)
    home.config.write_text("server:\n  port: 9001\nreef:\n  recipe: sft\n  api_key: hunter2\n")
    serve = tmp_path / "serve.yaml"
    serve.write_text("learn: {idle_s: 7}\n")
    monkeypatch.setenv("REEF_ENGINE_STREAMS", "2")
    values = json.loads(reef("config", "show", "-c", str(serve), "--json").out)
    assert values["server.port"] == {"value": 9001, "origin": f"{home.config}:2"}
    assert values["engine.streams"]["origin"] == "environment REEF_ENGINE_STREAMS"
    assert values["learn.idle_s"]["origin"] == f"{serve}:1"
    assert values["server.host"]["origin"] == "default"
    result = reef("config", "show")
    assert "hunter2" not in result.out
    assert "~/.reef/config.yaml:2" in result.out


def test_check_refuses_a_misspelt_recipe_and_setting_with_file_and_line(reef, home) -> None:
    home.root.mkdir(parents=True)
    home.config.write_text("reef:\n  recipe: demoss\n")
    result = reef("config", "check")
    assert result.code == 1
    assert f"{home.config}:2: There is no recipe named 'demoss'." in result.err
    assert "Did you mean 'demos'?" in result.err
    home.config.write_text("reef:\n  recipe: demos\nscenarios:\n  pi:\n    reef:\n      batchsize: 4\n")
    result = reef("config", "check")
    assert result.code == 1
    assert f"{home.config}:6: The recipe 'demos' has no setting 'batchsize'." in result.err
    assert "Did you mean 'batch_size'?" in result.err
    home.config.write_text("reef: {recipe: demos, batch_size: 4}\n")
    assert "The settings hold" in reef("config", "check").out


def test_check_finds_a_recipe_in_the_folder_that_one_stands_in(reef, home, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "stands_here.py").write_text("from recipes.demos.recipe import DemosRecipe as Mine\n")
    home.root.mkdir(parents=True)
    home.config.write_text("reef: {recipe: 'stands_here:Mine'}\n")
    assert "no module 'stands_here'" in reef("config", "check").err
    monkeypatch.chdir(tmp_path)
    assert reef("config", "check").code == 0


def test_show_writes_a_size_as_a_settings_file_does(reef, home) -> None:
    assert "storage.retention_bytes 20GiB default" in " ".join(reef("config", "show").out.split())
    home.root.mkdir(parents=True)
    for written in ("500MB", "1536MiB", "3TiB", "12345B", "0"):
        home.config.write_text(f"storage: {{retention_bytes: {written}}}\n")
        assert f" {written} " in reef("config", "show").out
    assert json.loads(reef("config", "show", "--json").out)["storage.retention_bytes"]["value"] == 0


def test_a_password_in_a_url_is_masked(reef, home) -> None:
    home.root.mkdir(parents=True)
    home.config.write_text("teacher: {url: 'http://me:hunter2@127.0.0.1:1/v1', model: m}\n")
    out = reef("config").out
    assert "hunter2" not in out
    assert "http://•••@127.0.0.1:1/v1" in out


def test_check_refuses_with_file_line_and_the_nearest_name(reef, home) -> None:
    home.root.mkdir(parents=True)
    home.config.write_text("server:\n  prot: 1\n")
    result = reef("config", "check")
    assert result.code == 1
    assert f"{home.config}:2: unknown setting 'server.prot'." in result.err
    assert "Did you mean 'port'?" in result.err
    home.config.write_text("server:\n  port: 1\n")
    assert "The settings hold" in reef("config", "check").out
