"""`reef init` asks little, can be run again, and leaves what a person wrote alone."""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path

import pytest

from daemon.config import LlamaConfig, UpstreamConfig
from daemon.config_load import load
from daemon.models import embedded_model
from reef_cli.engine_choice import EngineChoice, parse
from reef_cli.home_config import first_config, with_engine


def test_yes_asks_nothing_and_makes_tokens_that_only_the_owner_can_read(reef, home) -> None:
    result = reef("init", "--yes")
    assert result.code == 0, result.err
    for token in (home.client_token, home.owner_token):
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert home.client_token.read_text() != home.owner_token.read_text()
    engine = load(home, None, {}, {}).config.engine
    assert isinstance(engine, LlamaConfig)
    assert engine.model == "embedded"
    assert "reef up" in result.out


def test_a_second_run_keeps_tokens_and_settings(reef, home) -> None:
    reef("init", "--yes")
    before = {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()}
    result = reef("init")
    assert result.code == 0
    assert "Nothing to do" in result.out
    assert {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()} == before


def test_another_engine_replaces_its_section_alone(reef, home) -> None:
    home.root.mkdir(parents=True)
    home.config.write_text("# mine\nserver:\n  port: 9999 # keep\nengine: {kind: llama, model: embedded}\nlearn:\n  mode: manual\n")
    result = reef("init", "--engine", "http://127.0.0.1:11434/v1", "--model", "qwen3:4b", "--api-key-env", "MY_KEY")
    assert result.code == 0, result.err
    text = home.config.read_text()
    assert "# mine" in text
    assert "port: 9999 # keep" in text
    config = load(home, None, {}, {}).config
    assert config.engine == UpstreamConfig(kind="upstream", url="http://127.0.0.1:11434/v1", model="qwen3:4b", api_key_env="MY_KEY")
    assert config.learn.mode == "manual"
    assert "The recipe stays sft" in result.out and "set reef.recipe to demos" in result.out
    assert "{kind: llama" in home.config.with_suffix(".yaml.before").read_text()


def test_json_for_programs(reef, home) -> None:
    result = reef("init", "--json")
    assert json.loads(result.out[result.out.index("{") :])["home"] == str(home.root)


def test_a_file_that_is_no_model_is_refused_before_anything_is_written(reef, home, tmp_path: Path) -> None:
    fake = tmp_path / "fake.gguf"
    fake.write_bytes(b"not a model" * 100)
    result = reef("init", "--engine", str(fake))
    assert result.code == 1
    assert str(fake) in result.err or "GGUF" in result.err
    assert not home.config.exists()
    assert "There is no file" in reef("init", "--engine", "/nowhere/x.gguf").err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_cannot_be_written_is_a_sentence(reef, monkeypatch, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    monkeypatch.setenv("REEF_HOME", str(tmp_path / "home"))
    result = reef("init", "--yes")
    assert result.code == 1
    assert "REEF_HOME" in result.err


def test_a_home_that_is_a_file_is_a_sentence(reef, monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("REEF_HOME", str(tmp_path / "home"))
    result = reef("init", "--yes")
    assert result.code == 1
    assert "REEF_HOME" in result.err


@pytest.mark.parametrize(
    ("typed", "choice"),
    [
        ("embedded", EngineChoice("embedded")),
        ("/models/a.gguf", EngineChoice("/models/a.gguf")),
        ("owner/repo/file.gguf", EngineChoice("hf:owner/repo/file.gguf")),
        ("hf:owner/repo/sub/file.gguf", EngineChoice("hf:owner/repo/sub/file.gguf")),
    ],
)
def test_what_was_typed_is_understood(typed: str, choice: EngineChoice) -> None:
    assert parse(typed) == choice


@pytest.mark.parametrize("model", ["qwen3:4b", "null", "/models/my model.gguf", "ünï", "1e3", 'a"b'])
def test_any_name_survives_the_file(home, model: str) -> None:
    home.root.mkdir(parents=True)
    for choice in (EngineChoice(model), EngineChoice(model, "http://127.0.0.1:1/v1")):
        for text in (
            first_config(choice),
            with_engine("learn: {mode: off}\n", choice),
            with_engine("engine:\n  model: x\n\n  streams: 2\n", choice),
        ):
            home.config.write_text(text)
            assert load(home, None, {}, {}).config.engine.model == model


def test_a_home_whose_weights_are_elsewhere_learns_without_them(home) -> None:
    home.root.mkdir(parents=True)
    for choice, recipe in ((EngineChoice("embedded"), "sft"), (EngineChoice("m", "http://127.0.0.1:1/v1"), "demos")):
        home.config.write_text(first_config(choice))
        assert load(home, None, {}, {}).config.reef.recipe == recipe


def test_a_model_to_download_is_fetched_checked_and_named(reef, home, monkeypatch) -> None:
    def pull(name, where, progress):
        assert name == "owner/repo/tiny.gguf"
        progress(1, 2)
        where.models.mkdir(parents=True)
        target = where.models / "tiny.gguf"
        target.symlink_to(embedded_model())
        return target

    monkeypatch.setattr("daemon.model_pull.pull", pull)
    result = reef("init", "--engine", "owner/repo/tiny.gguf")
    assert result.code == 0, result.err
    assert "Downloading owner/repo/tiny.gguf" in result.err
    assert load(home, None, {}, {}).config.engine == LlamaConfig(model="tiny.gguf")


def test_answers_are_asked_again_until_understood(reef, home, monkeypatch) -> None:
    answers = iter(["7", "4", "http://127.0.0.1:5/v1", "m", ""])
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    result = reef("init")
    assert result.code == 0, result.err
    assert "Type 1, 2, 3 or 4." in result.out
    assert load(home, None, {}, {}).config.engine == UpstreamConfig(kind="upstream", url="http://127.0.0.1:5/v1", model="m")


def test_a_question_that_nobody_can_answer_says_how_to_answer_it_at_once(reef, home, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    result = reef("init")
    assert result.code == 1 and "reef init --yes" in result.err and not home.config.exists()
