"""A person looks at the models, downloads one and serves another, with the daemon up and down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.config import LlamaConfig
from daemon.config_load import load
from daemon.errors import EngineError
from tests.engine.test_model_files import write_model


@pytest.fixture(autouse=True)
def _set_up(home) -> None:
    write_model(home.models / "Other.gguf")


def test_with_the_daemon_down_the_list_marks_what_the_settings_name(reef, home) -> None:
    (home.models / "broken.gguf").write_bytes(b"GGUF")
    result = reef("models")
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[1].startswith("●  embedded") and "135 M" in lines[1] and "8,192" in lines[1]
    assert any(line.startswith("   Other.gguf") and "llama" in line for line in lines)
    assert "broken.gguf cannot serve: " in result.out
    assert "Other.gguf has no chat template" in result.out
    listed = json.loads(reef("models", "list", "--json").out)["models"]
    assert [model["serves"] for model in listed] == [True, False, False]


def test_with_the_daemon_down_use_changes_the_settings_alone(reef, home, tmp_path: Path) -> None:
    home.config.write_text("engine: {streams: 2} # mine\n")
    result = reef("models", "use", "other")
    assert result.code == 0, result.err
    assert "reef up" in result.out
    assert load(home, None, {}, {}).config.engine == LlamaConfig(model="Other.gguf", streams=2)
    assert "already" in reef("models", "use", "Other.gguf").out
    assert "already" in reef("models", "use", "other.gguf").out
    mine = write_model(tmp_path / "elsewhere" / "Mine.gguf")
    assert reef("models", "use", str(mine)).code == 0
    assert load(home, None, {}, {}).config.engine.model == str(mine)
    assert reef("models", "use", "embedded").code == 0
    assert load(home, None, {}, {}).config.engine.model == "embedded"


def test_what_cannot_serve_is_refused_before_the_settings_change(reef, home, tmp_path: Path) -> None:
    write_model(home.models / "encoder.gguf", architecture="bert")
    for name, words in (("encoder", "embeddings only"), ("absent", "no model absent"), ("a/b/c.gguf", "no model")):
        result = reef("models", "use", name)
        assert result.code == 1 and words in result.err, result.err
    assert not home.config.exists()


def test_with_the_daemon_up_it_does_the_work(reef, daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = {"scenario": "default", "release_id": "r2", "change": "base model a → b, LoRA taken off"}
    answer = {"model": "b", "name": "b.gguf", "before": "a", "context_tokens": 512, "releases": [release], "warnings": ["One is left out."]}
    daemon.answer("POST /reef/models/use", answer)
    result = reef("models", "use", "b.gguf")
    assert result.code == 0, result.err
    for part in ("b serves now", "a before", "r2  base model a → b, LoRA taken off", "One is left out.", "must name b now"):
        assert part in result.out
    write_model(tmp_path / "local.gguf")
    monkeypatch.chdir(tmp_path)
    reef("models", "use", "local.gguf")
    assert daemon.asked[-1][2] == {"name": str(tmp_path / "local.gguf")}, "the daemon stands in another folder"


def test_with_the_daemon_up_the_list_is_the_daemon_s(reef, daemon) -> None:
    model = {
        "name": "x.gguf",
        "size_bytes": 5_000_000_000,
        "parameters": 8_030_000_000,
        "window_tokens": 131072,
        "served_tokens": 32768,
        "serves": True,
    }
    daemon.answer(
        "GET /reef/models", {"serves": "x", "models": [{**model, "quantisation": "Q4_K_M", "architecture": "llama", "trains": True}]}
    )
    result = reef("models")
    assert "●  x.gguf  5.0 GB  Q4_K_M        8.0 B       32,768 of 131,072  llama         yes" in result.out


def test_a_download_is_told_and_what_came_is_described(reef, home, monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(name, where, progress):
        assert name == "owner/repo/tiny.gguf"
        progress(1 << 20, 4 << 20)
        progress(4 << 20, 4 << 20)
        return write_model(where.models / "tiny.gguf")

    monkeypatch.setattr("daemon.model_pull.pull", pull)
    result = reef("models", "pull", "hf:owner/repo/tiny.gguf")
    assert result.code == 0, result.err
    assert "4.2 MB of 4.2 MB" in result.err and "Serve it: reef models use tiny.gguf" in result.out
    assert json.loads(reef("models", "pull", "owner/repo/tiny.gguf", "--json").out)["name"] == "tiny.gguf"


def test_a_broken_download_says_that_it_goes_on(reef, monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(name, where, progress):
        progress(1, 2)
        raise EngineError("The connection to the hub broke.", "Pull again: it goes on where it stopped.")

    monkeypatch.setattr("daemon.model_pull.pull", pull)
    result = reef("models", "pull", "owner/repo/tiny.gguf")
    assert result.code == 1 and "it goes on where it stopped" in result.err


def test_half_a_command_says_what_is_missing(reef) -> None:
    for arguments, words in ((("use",), "reef models use NAME"), (("pull",), "owner/repo/file.gguf"), (("list", "x"), "reef models use x")):
        result = reef("models", *arguments)
        assert result.code == 1 and words in result.err
    unnamed = reef("models", "pull", "tiny")
    assert unnamed.code == 1 and "does not name" in unnamed.err and "Downloading" not in unnamed.err
