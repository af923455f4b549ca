"""A model is changed in the settings file, and everything that a person wrote there stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.config import LlamaConfig
from daemon.config_edit import with_model
from daemon.config_load import load
from daemon.errors import ConfigError
from daemon.paths import Home


def _engine(home: Home, text: str) -> LlamaConfig:
    home.root.mkdir(parents=True, exist_ok=True)
    home.config.write_text(text, encoding="utf-8")
    engine = load(home, None, {}, {}).config.engine
    assert isinstance(engine, LlamaConfig)
    return engine


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ()),
        ("# mine\nserver:\n  port: 9999 # keep\n", ("# mine", "port: 9999 # keep")),
        ("engine:\n  model: old # the good one\n  streams: 2\nlearn: {mode: off}\n", ("# the good one", "streams: 2", "mode: off")),
        ("engine:\n  # how many\n  streams: 2\n", ("# how many", "streams: 2")),
        ("engine: {kind: llama, model: 'old.gguf', streams: 2} # all\nlearn: {mode: off}", ("streams: 2", "# all", "mode: off")),
        ("engine: {}\n", ()),
        ("engine: {streams: 2}\n", ("streams: 2",)),
        ("engine:\nlearn: {mode: off}\n", ("mode: off",)),
        ('"engine":\n    "model": "old"\n    threads: 2\n', ("threads: 2",)),
        ("engine:\n  kind: upstream\n  url: http://h/v1\n  model: qwen\n\n# after\nlearn: {mode: off}\n", ("# after", "mode: off")),
    ],
)  # fmt: skip
def test_only_the_model_changes(tmp_path: Path, text: str, kept: tuple[str, ...]) -> None:
    edited = with_model(text, "new.gguf")
    assert all(part in edited for part in kept)
    engine = _engine(Home(tmp_path), edited)
    assert engine.model == "new.gguf"
    assert engine.streams == (2 if "streams: 2" in text else 4)
    assert with_model(edited, "new.gguf") == edited


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12))
def test_any_name_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, model: str) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    assert _engine(home, with_model("engine:\n  model: x # y\n", model)).model == model


@pytest.mark.parametrize(
    "text", ["engine: &e {model: a}\nlearn: *e\n- 1", "- a list\n", "engine:\n  <<: {kind: upstream, model: a}\n\tx: 1"]
)
def test_a_file_that_cannot_be_changed_is_left_to_the_person(text: str) -> None:
    with pytest.raises(ConfigError, match="settings file"):
        with_model(text, "new.gguf")
