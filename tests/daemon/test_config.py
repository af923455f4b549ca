"""A setting that does not hold is refused with its line; one that holds is found where it was said last."""

from pathlib import Path

import pytest

from daemon.config import Config, LlamaConfig, UpstreamConfig
from daemon.config_load import LoadedConfig, changed, load, restart_needed
from daemon.errors import ConfigError
from daemon.paths import Home

ARTICLE = "reef:\n  recipe: recipes.sao.recipe:SAORecipe\n  batch_size: 1\n  max_staleness: 18\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


def read(home: Home, text: str, **env: str) -> LoadedConfig:
    home.config.write_text(text)
    return load(home, None, env, {})


def refused(home: Home, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(home, text)
    return caught.value


def test_without_a_file_the_printed_defaults_hold(home: Home) -> None:
    config = load(home, None, {}, {}).config
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8900)
    assert isinstance(config.engine, LlamaConfig)
    assert (config.engine.model, config.engine.streams) == ("embedded", 4)
    assert (config.learn.mode, config.learn.idle_s, config.evaluation.alpha) == ("auto", 300, 0.1)
    assert config.storage.retention_bytes == 20 << 30
    assert config.evaluation.tasks_folder(home) == home.tasks


def test_the_articles_serve_file_is_accepted_as_printed(home: Home, tmp_path: Path) -> None:
    serve = tmp_path / "serve.yaml"
    serve.write_text(ARTICLE)
    loaded = load(home, serve, {}, {})
    assert loaded.config.reef.recipe == "recipes.sao.recipe:SAORecipe"
    assert loaded.config.reef.settings == {"batch_size": 1, "max_staleness": 18}
    assert loaded.search_paths == (tmp_path,)


def test_the_printed_configuration_is_accepted(home: Home) -> None:
    config = read(
        home,
        """
reef: {recipe: recipes.sft.recipe:SFTRecipe, batch_size: 8, max_staleness: 18}
server:   {host: 127.0.0.1, port: 8900, allowed_hosts: [], allowed_origins: []}
engine:   {kind: llama, model: embedded, context: auto, streams: 4, threads: auto, gpu_layers: auto}
teacher:  {url: http://127.0.0.1:1/v1, model: big, api_key_env: KEY, tokens_per_day: 10, cost_per_day: 1}
training: {backend: peft, rank: 16, max_minutes: 30, nice: 19}
learn:    {mode: off, idle_s: 300, hours: 22:00-07:00, on_battery: false}
evaluation: {tasks: ~/.reef/tasks, gate: paired, alpha: 0.1, probe_max_rise: 5e-2}
storage:  {retention_bytes: 20GiB, redact: true}
scenarios: {pi: {recipe: demos, learn: {mode: manual}}}
""",
    ).config
    assert config.learn.mode == "off"
    assert config.evaluation.probe_max_rise == 0.05
    assert config.for_scenario("pi").reef.recipe == "demos"
    assert config.for_scenario("pi").reef.settings == {}, "another recipe's settings must not reach it"
    assert config.for_scenario("pi").learn.hours == "22:00-07:00"
    assert config.for_scenario("other") is config


def test_the_later_source_wins_and_is_named(home: Home, tmp_path: Path) -> None:
    home.config.write_text("server:\n  port: 1111\nlearn: {idle_s: 5}\nengine: {streams: 2}\n")
    serve = tmp_path / "serve.yaml"
    serve.write_text("server: {port: 2222}\n")
    env = {"REEF_ENGINE_STREAMS": "3", "REEF_HOME": "x", "REEF_LEARN_MODE": "off"}
    loaded = load(home, serve, env, {"server.port": 4444})
    assert loaded.config.server.port == 4444
    assert loaded.config.learn.mode == "off"
    assert loaded.origins["server.port"] == "command line"
    assert loaded.origins["engine.streams"] == "environment REEF_ENGINE_STREAMS"
    assert loaded.origins["learn.idle_s"] == f"{home.config}:3"
    assert loaded.origins["learn.hours"] == "default"
    assert loaded.files == (home.config, serve)


def test_another_engine_starts_its_section_anew(home: Home, tmp_path: Path) -> None:
    home.config.write_text("engine: {streams: 2}\n")
    serve = tmp_path / "serve.yaml"
    serve.write_text("engine: {kind: upstream, url: 'http://127.0.0.1:9/v1', model: m}\n")
    assert isinstance(load(home, serve, {}, {}).config.engine, UpstreamConfig)


@pytest.mark.parametrize(
    ("text", "line", "sentence", "hint"),
    [
        ("server:\n  prot: 1\n", 2, "unknown setting 'server.prot'", "Did you mean 'port'?"),
        ("sevrer: {}\n", 1, "unknown setting 'sevrer'", "Did you mean 'server'?"),
        ("engine:\n  kind: llama\n  stream: 2\n", 3, "unknown setting 'engine.stream'", "Did you mean 'streams'?"),
        ("engine:\n  kind: upstream\n  url: http://x/v1\n  modle: 2\n  model: m\n", 4, "'engine.modle'", "Did you mean 'model'?"),
        ("engine: {kind: lama}\n", 1, 'engine.kind is "lama"', "config check"),
        ("engine: {context: lots}\n", 1, "should be 'auto' or a valid integer", "config check"),
        ("engine: {kind: upstream, model: m}\n", 1, "'engine.url' is missing", "Add url:"),
        ("server:\n  port: '8900'\n", 2, 'server.port is "8900", but should be a valid integer', "config check"),
        ("engine: {streams: true}\n", 1, "engine.streams is true", "config check"),
        ("learn:\n  idle_s: 1\n  idle_s: 2\n", 3, "'learn.idle_s' is set twice", "Remove one"),
        ("learn: {mode: sometimes}\n", 1, "learn.mode", "config check"),
        ("learn: {hours: 7-9}\n", 1, "write always", "config check"),
        ("server:\n  - 1\n", 1, "server", "config check"),
        ("server: [\n", 2, "no YAML", "brackets|quotes|colons"),
        ("server:\n  host: 0.0.0.0\n", 1, "expose: true", "config check"),
        ("server: {allowed_origins: ['*']}\n", 1, "wildcard", "config check"),
        ("storage: {retention_bytes: lots}\n", 1, "such as 20GiB", "config check"),
        ("storage:\n  redact:\n    patterns: {a: 'x+'}\n", 3, "patterns: storage.redact.patterns.a is not taken", "config check"),
        ("storage:\n  redact:\n    patern: {}\n", 3, "unknown setting 'storage.redact.patern'", "Did you mean 'patterns'?"),
        ("storage: {redact: 3}\n", 1, "should be a valid boolean or an object", "config check"),
        ("scenarios:\n  Pi: {}\n", 2, "no scenario name", "a-z"),
        ("scenarios:\n  pi:\n    learn: {idle: 2}\n", 3, "'scenarios.pi.learn.idle'", "Did you mean 'idle_s'?"),
        ("scenarios:\n  pi:\n    engine: {streams: 2}\n", 3, "cannot have its own engine", "top level"),
        ("scenarios:\n  pi:\n    lern: {}\n", 3, "unknown section 'lern'", "Did you mean 'learn'?"),
        ("server: &a {port: 1}\nengine: *a\n", 1, "anchors", "Write the value out"),
        ("learn: {hours: 2020-01-01, idle_s: .nan}\n", 1, "idle_s", "config check"),
        ("- a\n", 1, "expected sections", "reef init"),
        ('reef: {recipe: "\\ud800"}\n', 1, "cannot be read", "Use text"),
    ],
)
def test_a_bad_setting_is_refused_with_its_line(home: Home, text: str, line: int, sentence: str, hint: str) -> None:
    error = refused(home, text)
    assert f"{home.config}:{line}:" in error.message
    assert sentence in error.message
    assert any(part in error.hint for part in hint.split("|")), error.hint


def test_a_bad_variable_is_named(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"environment REEF_SERVER_PROT: unknown setting"):
        load(home, None, {"REEF_SERVER_PROT": "1"}, {})


def test_a_missing_serve_file_is_named(home: Home, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read .*nothing\.yaml"):
        load(home, tmp_path / "nothing.yaml", {}, {})


def test_binary_files_are_refused(home: Home) -> None:
    home.config.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="no UTF-8"):
        load(home, None, {}, {})


@pytest.mark.parametrize("text", ["[" * 20_000, "a: \x01\n"])
def test_brackets_without_end_and_control_characters_are_no_settings(home: Home, text: str) -> None:
    home.config.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml.*: this is n"):
        load(home, None, {}, {})
    home.config.write_text("")
    with pytest.raises(ConfigError, match="REEF_SERVER_PORT"):
        load(home, None, {"REEF_SERVER_PORT": text}, {})


def test_what_needs_a_restart_is_told(home: Home) -> None:
    old = Config()
    new = read(home, "server: {port: 1}\nlearn: {mode: manual}\n").config
    assert changed(old, new) == ["server", "learn"]
    assert restart_needed(old, new) == ["server"]


def test_every_setting_is_documented() -> None:
    for name, section in Config.model_fields.items():
        models = [m for m in (LlamaConfig, UpstreamConfig) if name == "engine"] or [section.annotation]
        for model in models:
            fields = getattr(model, "model_fields", {})
            assert all(field.description for field in fields.values()), f"{name}: a field has no docstring"
