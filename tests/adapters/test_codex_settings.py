"""Pointing codex at Reef must not lose what a person or codex has written in `config.toml`, and must not write a token down."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.codex.adapter import CodexAdapter
from adapters.codex.toml_edit import edit
from adapters.codex.window import SMALLEST_CONTEXT_TOKENS, fit_window
from daemon.errors import DataError, Unsupported
from daemon.harness.adapter import InstallContext, Rendering
from daemon.harness_tree import HarnessTree

THEIRS = """\
# I like it brief
model_reasoning_summary = "none" # really
model = "theirs"

[projects."/home/me/my project"]
trust_level = "trusted"

[model_providers.mine]
name = "Mine"
base_url = "http://localhost:1/v1" # my own
"""


def context(tmp_path: Path, files: dict[str, str] | None = None) -> InstallContext:
    token = tmp_path / "my tokens" / "client"
    return InstallContext(
        tmp_path / "codex", "http://127.0.0.1:8900/", token, "small", 32_768, 4096, "codex", HarnessTree(files or {}), "r3"
    )


def rendered(tmp_path: Path, present: dict[str, str] | None = None, files: dict[str, str] | None = None) -> Rendering:
    return CodexAdapter().render(context(tmp_path, files), (present or {}).get)


def test_codex_is_told_the_address_the_scenario_and_a_window_that_fits(tmp_path: Path) -> None:
    files = rendered(tmp_path).files
    config = tomllib.loads(files["config.toml"])
    found = config["model_providers"]["reef"]
    assert (config["model"], config["model_provider"], found["base_url"]) == ("small", "reef", "http://127.0.0.1:8900/v1")
    assert found["wire_api"] == "responses" and found["auth"] == {"command": "cat", "args": [f"{tmp_path}/my tokens/client"]}
    assert found["http_headers"] == {"x-reef-scenario": "codex", "x-reef-tag-client": "codex", "x-reef-tag-release": "r3"}
    assert config["model_context_window"] == 32_768 and config["model_auto_compact_token_limit"] == 32_768 - 4096 - 2048
    [model] = json.loads(files["reef-models.json"])["models"]
    assert model["slug"] == "small" and model["context_window"] == 32_768 and len(model["base_instructions"]) < 4000
    assert config["model_catalog_json"] == f"{tmp_path}/codex/agent/reef-models.json"


def test_nothing_is_reported_updated_or_fetched_elsewhere(tmp_path: Path) -> None:
    config = tomllib.loads(rendered(tmp_path, {"config.toml": "[analytics]\nenabled = true\n"}).files["config.toml"])
    assert config["analytics"]["enabled"] is False and config["feedback"]["enabled"] is False
    assert config["check_for_update_on_startup"] is False
    assert config["features"] == {"daemon_auto_start": False, "plugins": False, "unbounded_connection_retries": False}


def test_what_a_person_and_codex_wrote_stays_with_its_comments(tmp_path: Path) -> None:
    present = {"config.toml": THEIRS + "\n[features]\nplugins = true\n"}
    text = rendered(tmp_path, present).files["config.toml"]
    config = tomllib.loads(text)
    for line in ("# I like it brief", '"none" # really', "# my own"):
        assert line in text
    assert config["projects"] == {"/home/me/my project": {"trust_level": "trusted"}}
    assert config["model"] == "small" and config["model_providers"]["mine"]["name"] == "Mine"
    assert config["features"]["plugins"] is True, "who turns plugins on has named the host"


def test_a_setting_that_the_harness_no_longer_makes_goes_and_the_persons_own_stays(tmp_path: Path) -> None:
    wanted = {"settings.json": '{"model_verbosity": "low", "tui": {"animations": false}, "model": "other", "no": null}'}
    first = rendered(tmp_path, {"config.toml": "[tui]\ntheme = 'dark'\n"}, wanted).files
    config = tomllib.loads(first["config.toml"])
    assert config["model_verbosity"] == "low" and config["tui"] == {"theme": "dark", "animations": False} and config["model"] == "small"
    second = tomllib.loads(rendered(tmp_path, dict(first)).files["config.toml"])
    assert "model_verbosity" not in second and second["tui"] == {"theme": "dark"}


def test_a_setting_changed_by_hand_is_read_back_and_what_follows_the_model_is_not(tmp_path: Path) -> None:
    tree = {"settings.json": '{"model_verbosity": "low", "tui": {"animations": false, "whimsy": true}, "model": "other"}'}
    files = dict(rendered(tmp_path, {}, tree).files)
    adapter = CodexAdapter()
    assert adapter.read_back(context(tmp_path, tree), files).files == tree
    changed = files["config.toml"].replace('"low"', '"high"').replace("animations = false\n", "")
    back = adapter.read_back(context(tmp_path, tree), {**files, "config.toml": changed + "\n[mine]\nx = 1\n"})
    assert json.loads(back.files["settings.json"]) == {"model_verbosity": "high", "tui": {"whimsy": True}, "model": "other"}


@pytest.mark.parametrize("text", ["not toml", "[a]\n[a]\n", 'model_providers = "none"\n'])
def test_a_damaged_file_is_named_and_a_value_in_the_way_too(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"config\.toml"):
        rendered(tmp_path, {"config.toml": text})


def test_taking_it_away_leaves_what_a_person_added_and_nothing_of_ours_or_of_codex(tmp_path: Path) -> None:
    adapter = CodexAdapter()
    fresh = rendered(tmp_path).files["config.toml"]
    trusted = fresh + '\n[projects."/x"]\ntrust_level = "trusted"\n\n[tui]\nscreen_reader_detection_done = true\n'
    assert adapter.withdraw("config.toml", fresh) is None and adapter.withdraw("config.toml", trusted) is None
    left = adapter.withdraw("config.toml", rendered(tmp_path, {"config.toml": THEIRS}).files["config.toml"])
    assert left is not None and "# I like it brief" in left
    assert tomllib.loads(left) == {
        "model_reasoning_summary": "none",
        "model_providers": {"mine": tomllib.loads(THEIRS)["model_providers"]["mine"]},
    }
    assert adapter.withdraw("config.toml", "not toml") == "not toml"


def test_a_model_renewed_leaves_nothing_of_the_one_before(tmp_path: Path) -> None:
    adapter, first = CodexAdapter(), rendered(tmp_path)
    later = replace(context(tmp_path), model_id="other", release_id="", base_url="http://127.0.0.1:8901")
    text = adapter.render(later, first.files.get).files["config.toml"]
    assert "small" not in text and "8900" not in text and "x-reef-tag-release" not in text


@pytest.mark.parametrize("context_tokens", [8192, 16_384, 131_072, 1 << 20])
def test_a_conversation_that_is_not_yet_compacted_leaves_room_for_an_output_and_a_reply(context_tokens: int) -> None:
    window = fit_window(context_tokens, 4096)
    assert 2500 < window.compact_at < context_tokens - window.tool_output


def test_a_window_that_no_agent_fits_into_is_refused_with_its_size() -> None:
    with pytest.raises(Unsupported, match="8191"):
        fit_window(SMALLEST_CONTEXT_TOKENS - 1, 512)


KEYS = st.sampled_from(["a", "b", "model", "two words", "ü", "x.y"])
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-9, 9), st.text(max_size=6), st.just([]), st.just([1, "x"])),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.dictionaries(st.tuples(KEYS, KEYS), st.integers(0, 3), max_size=3), st.booleans())
def test_an_edit_changes_what_it_names_and_nothing_else(content: dict[str, object], put: dict[tuple[str, ...], int], again: bool) -> None:
    text = edit("config.toml", "# head\n", {(key,): value for key, value in content.items()})  # type: ignore[misc]
    assert tomllib.loads(text) == content and text.startswith("# head")
    expected = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for key, below in put:
        if not isinstance(expected.setdefault(key, {}), dict):
            with pytest.raises(DataError, match="must be a table"):
                edit("config.toml", text, put)
            return
        expected[key][below] = put[key, below]  # type: ignore[index]
    edited = edit("config.toml", text, put)
    assert tomllib.loads(edited) == expected
    assert edit("config.toml", edited, put) == edited, "a second time changes nothing"
    gone = edit("config.toml", edited, {}, put)
    for key, below in put:
        assert below not in tomllib.loads(gone).get(key, {})
